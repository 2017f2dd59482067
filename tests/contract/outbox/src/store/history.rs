//! The history of outbox rows.

use handover_events::{EventId, HistoryKind, TenantId};
use handover_outbox::ports::HistoryEntry;

use super::{StoreRig, begin, in_unit, view};
use crate::samples::{SPECIAL_CHARACTERS, event_id, history_entry, later, tenant};

async fn of(rig: &dyn StoreRig, ids: &[&str]) -> Vec<HistoryEntry> {
    let ids: Vec<EventId> = ids.iter().map(|id| event_id(id)).collect();
    view(rig).await.outbox_view().history_of(&ids).await.expect("cannot read the history")
}

/// An entry of every kind is read back as it was written, with and without optional fields.
pub async fn a_history_entry_is_read_back_as_it_was_written(rig: &dyn StoreRig) {
    let mut written: Vec<HistoryEntry> =
        HistoryKind::ALL.iter().map(|kind| HistoryEntry { kind: *kind, ..history_entry("e-1") }).collect();
    written.push(HistoryEntry { detail: Some(SPECIAL_CHARACTERS.into()), ..history_entry("e-1") });
    written.push(HistoryEntry { consumer: Some("inventory".into()), detail: None, ..history_entry("e-1") });
    written.push(HistoryEntry { tenant: tenant(2), attempts: u32::MAX, ..history_entry("e-1") });
    written.push(HistoryEntry { event_id: event_id(&"x".repeat(64)), ..history_entry("e-1") });
    in_unit!(rig, |unit| unit.outbox().add_history(&written).await.unwrap());
    let longest = "x".repeat(64);
    assert_eq!(of(rig, &["e-1", &longest]).await, written);
    assert_eq!(written[0].tenant, TenantId::DEFAULT);
}

/// Entries are returned in the order in which they were added, whatever their times, and only for the requested
/// events.
pub async fn history_is_ordered_by_insertion(rig: &dyn StoreRig) {
    let entry = |id: &str, seconds: i64| HistoryEntry { at: later(seconds), ..history_entry(id) };
    in_unit!(rig, |unit| {
        unit.outbox().add_history(&[entry("a", 5), entry("b", 4), entry("A", 3)]).await.unwrap();
        unit.outbox().add_history(&[entry("a", 2), entry("a", 5)]).await.unwrap();
        unit.outbox().add_history(&[]).await.unwrap();
    });
    assert_eq!(of(rig, &["a"]).await, [entry("a", 5), entry("a", 2), entry("a", 5)], "duplicates are kept");
    assert_eq!(of(rig, &["b", "missing", "b"]).await, [entry("b", 4)]);
    assert_eq!(of(rig, &[]).await, []);
    let all = [entry("a", 5), entry("b", 4), entry("a", 2), entry("a", 5)];
    assert_eq!(of(rig, &["b", "a"]).await, all);
}

/// Many entries can be added and read in one call.
pub async fn many_history_entries_are_returned_completely(rig: &dyn StoreRig) {
    let ids: Vec<String> = (0..300).map(|n| format!("e{n:03}")).collect();
    let written: Vec<HistoryEntry> = ids.iter().map(|id| history_entry(id)).collect();
    in_unit!(rig, |unit| unit.outbox().add_history(&written).await.unwrap());
    assert_eq!(of(rig, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await, written);
}

/// A unit of work reads its own entries, and they are rolled back with it.
pub async fn a_history_entry_is_part_of_its_unit_of_work(rig: &dyn StoreRig) {
    let mut unit = begin(rig).await;
    unit.outbox().add_history(&[history_entry("e-1")]).await.unwrap();
    assert_eq!(
        unit.outbox().history_of(&[event_id("e-1")]).await.unwrap().len(),
        1,
        "a unit of work must read its own entries"
    );
    drop(unit);
    assert_eq!(of(rig, &["e-1"]).await, []);
}
