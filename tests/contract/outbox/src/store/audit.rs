//! The audit log.

use handover_outbox::ports::{AuditEntry, AuditFilter};

use super::{StoreRig, begin, in_unit, view};
use crate::samples::{SPECIAL_CHARACTERS, audit_entry, event, later, tenant};

async fn audit(rig: &dyn StoreRig, entry: &AuditEntry) {
    in_unit!(rig, |unit| unit.outbox().audit(entry).await.expect("cannot add an audit entry"));
}

/// The actions of a page of audit entries, and the cursor of the next page.
async fn page(
    rig: &dyn StoreRig,
    of: Option<i64>,
    before: Option<i64>,
    limit: u32,
) -> (Vec<String>, Option<i64>) {
    let filter = AuditFilter { tenant: of.map(tenant), changes: false, ..AuditFilter::default() };
    let page = view(rig)
        .await
        .outbox_view()
        .audit_page(&filter, before, limit)
        .await
        .expect("cannot read the audit log");
    assert!(page.is_sorted_by(|a, b| a.id > b.id), "{page:?}");
    let next = page.last().map(|row| row.id);
    (page.into_iter().map(|row| row.effect.action).collect(), next)
}

/// An audit entry is read back as it was written; the same entry can be written twice.
pub async fn an_audit_entry_is_read_back_as_it_was_written(rig: &dyn StoreRig) {
    let full = AuditEntry {
        tenant: tenant(2),
        actor: format!("command-line:{SPECIAL_CHARACTERS}"),
        selection: format!("{{\"eventIds\":[\"{}\"],  \"reason\": null}}", "e".repeat(20_000)),
        matched: 9_007_199_254_740_991,
        changed: 9_007_199_254_740_990,
        reason: Some(SPECIAL_CHARACTERS.into()),
        at: later(9),
        ..audit_entry("dead-letters.discard")
    };
    let minimal = AuditEntry { matched: 0, changed: 0, reason: None, ..audit_entry("outbox.release") };
    for entry in [&full, &minimal, &minimal] {
        audit(rig, entry).await;
    }
    let seen = view(rig).await.outbox_view().audit_page(&AuditFilter::default(), None, 10).await.unwrap();
    assert_eq!(seen.into_iter().map(|row| row.effect).collect::<Vec<_>>(), [minimal.clone(), minimal, full]);
}

/// A page contains the audit entries below the cursor, last written first.
pub async fn pages_of_the_audit_log_are_ordered_newest_first(rig: &dyn StoreRig) {
    // The times of the entries do not affect their sequence in a page.
    for (action, at) in [("a", 5), ("b", 4), ("c", 9), ("d", 1), ("e", 2)] {
        audit(rig, &AuditEntry { at: later(at), ..audit_entry(action) }).await;
    }
    let (first, next) = page(rig, None, None, 2).await;
    assert_eq!(first, ["e", "d"]);
    let newer = AuditFilter { above_id: next, ..AuditFilter::default() };
    let newer = view(rig).await.outbox_view().audit_page(&newer, None, 9).await.unwrap();
    let newer: Vec<_> = newer.into_iter().map(|row| row.effect.action).collect();
    assert_eq!(newer, ["e"], "only entries with ids above the bound may be returned");
    let (second, next) = page(rig, None, next, 2).await;
    assert_eq!(second, ["c", "b"]);
    let (last, next) = page(rig, Some(1), next, 2).await;
    assert_eq!(last, ["a"]);
    assert_eq!(page(rig, None, next, 2).await, (Vec::new(), None));
}

/// The filter for changes omits audit entries with `changed` = 0; a page is still filled up to its limit.
pub async fn the_filter_for_changes_omits_entries_of_reads(rig: &dyn StoreRig) {
    for (action, changed) in [("a", 1), ("read", 0), ("b", 2), ("read", 0), ("read", 0), ("c", 9_000_000_000)]
    {
        audit(rig, &AuditEntry { changed, ..audit_entry(action) }).await;
    }
    let filter = |tenant| AuditFilter { tenant, changes: true, ..AuditFilter::default() };
    let first = view(rig).await.outbox_view().audit_page(&filter(None), None, 2).await.unwrap();
    let rest = view(rig)
        .await
        .outbox_view()
        .audit_page(&filter(Some(tenant(1))), Some(first[1].id), 2)
        .await
        .unwrap();
    let actions: Vec<_> = first.into_iter().chain(rest).map(|row| row.effect.action).collect();
    assert_eq!(actions, ["c", "b", "a"]);
}

/// The filter for times includes its begin and excludes its end.
pub async fn the_filter_for_times_narrows_the_audit_log(rig: &dyn StoreRig) {
    for (seconds, action) in [(1, "a"), (2, "b"), (3, "c")] {
        audit(rig, &AuditEntry { at: later(seconds), ..audit_entry(action) }).await;
    }
    let cases: [(Option<i64>, Option<i64>, &[&str]); 4] = [
        (Some(2), None, &["c", "b"]),
        (None, Some(2), &["a"]),
        (Some(2), Some(3), &["b"]),
        (Some(4), None, &[]),
    ];
    for (from, to, expected) in cases {
        let filter = AuditFilter { from: from.map(later), to: to.map(later), ..AuditFilter::default() };
        let page = view(rig).await.outbox_view().audit_page(&filter, None, 10).await.unwrap();
        let actions: Vec<_> = page.into_iter().map(|row| row.effect.action).collect();
        assert_eq!(actions, expected, "{filter:?}");
    }
}

/// Audit entries belong to one tenant; a query without a tenant returns all.
pub async fn audit_entries_belong_to_one_tenant(rig: &dyn StoreRig) {
    audit(rig, &audit_entry("own")).await;
    audit(rig, &AuditEntry { tenant: tenant(2), ..audit_entry("other-tenant") }).await;
    assert_eq!(page(rig, Some(1), None, 10).await.0, ["own"]);
    assert_eq!(page(rig, Some(2), None, 10).await.0, ["other-tenant"]);
    assert_eq!(page(rig, Some(3), None, 10).await.0, [""; 0]);
    assert_eq!(page(rig, None, None, 10).await.0, ["other-tenant", "own"]);
}

/// An audit entry is committed together with the action that it records, or not at all.
pub async fn an_audit_entry_is_part_of_its_unit_of_work(rig: &dyn StoreRig) {
    let mut unit = begin(rig).await;
    unit.outbox().append(&[event("undone", 7, 1)]).await.unwrap();
    unit.outbox().audit(&audit_entry("undone")).await.unwrap();
    let own: Vec<_> = unit.outbox().audit_page(&AuditFilter::default(), None, 10).await.unwrap();
    assert_eq!(own.len(), 1, "a unit of work must read its own entries");
    drop(unit);
    assert_eq!(page(rig, None, None, 10).await.0, [""; 0]);
    in_unit!(rig, |unit| {
        unit.outbox().append(&[event("done", 7, 1)]).await.unwrap();
        unit.outbox().audit(&audit_entry("done")).await.unwrap();
    });
    assert_eq!(page(rig, None, None, 10).await.0, ["done"]);
}

/// Entries of reads from before a time are deleted, oldest first and at most `limit`; entries of changes stay.
pub async fn old_audit_entries_of_reads_are_deleted(rig: &dyn StoreRig) {
    // A database deletes no entry of the last days.
    let day = |day: i64| later(86_400 * (day - 1_000));
    for (action, changed, days) in [
        ("third", 0, 3),
        ("first", 0, 1),
        ("changed", 1, 1),
        ("young", 0, 4),
        ("second", 0, 2),
        ("old", 7, 0),
    ] {
        audit(rig, &AuditEntry { changed, at: day(days), ..audit_entry(action) }).await;
    }
    audit(rig, &AuditEntry { changed: 0, at: day(1), tenant: tenant(2), ..audit_entry("tenant") }).await;
    let delete = async |limit| {
        in_unit!(rig, |unit| unit.outbox().delete_audit_reads(day(4), limit).await.expect("cannot delete"))
    };
    assert_eq!(delete(2).await, 2);
    assert_eq!(page(rig, None, None, 10).await.0, ["old", "second", "young", "changed", "third"]);
    assert_eq!(delete(1).await, 1);
    assert_eq!(page(rig, None, None, 10).await.0, ["old", "young", "changed", "third"]);
    assert_eq!(delete(10).await, 1);
    assert_eq!(delete(10).await, 0);
    assert_eq!(page(rig, None, None, 10).await.0, ["old", "young", "changed"]);
}
