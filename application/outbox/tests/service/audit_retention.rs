//! Audit entries of reads whose retention time is over.

use std::time::Duration;

use handover_events::TenantId;
use handover_outbox::AuditRetention;
use handover_outbox::jobs::Job as _;
use handover_outbox::ports::{AuditEntry, AuditFilter, UnitOfWork as _};

use crate::lent;
use crate::library::Library;

const DAY: Duration = Duration::from_secs(86_400);

fn entry(library: &Library, action: &str, changed: u64) -> AuditEntry {
    AuditEntry {
        tenant: TenantId::DEFAULT,
        actor: "user:9".to_owned(),
        action: action.to_owned(),
        selection: "{}".to_owned(),
        matched: 1,
        changed,
        reason: None,
        trace_id: "t".to_owned(),
        at: library.outbox.now(),
    }
}

async fn audit(library: &Library, entries: &[AuditEntry]) {
    let mut unit = library.tx.begin().await.unwrap();
    for entry in entries {
        unit.outbox().audit(entry).await.unwrap();
    }
    unit.commit().await.unwrap();
}

async fn run(library: &Library, keep: Duration) {
    AuditRetention::new(&library.outbox, keep).run(None).await.unwrap();
}

async fn actions(library: &Library) -> Vec<String> {
    let mut view = library.outbox.view().await.unwrap();
    let page = view.outbox_view().audit_page(&AuditFilter::default(), None, 2_000).await.unwrap();
    page.into_iter().map(|row| row.effect.action).collect()
}

#[tokio::test(start_paused = true)]
async fn entries_of_reads_are_deleted_after_their_retention_time_and_those_of_changes_stay() {
    let library = Library::sending([lent()]);
    let read = entry(&library, "read", 0);
    audit(&library, &[entry(&library, "change", 1)]).await;
    // More than two units of work delete.
    audit(&library, &vec![read; 1_020]).await;
    library.set_clock_forward(29 * DAY);
    run(&library, 30 * DAY).await;
    assert_eq!(actions(&library).await.len(), 1_021, "the retention time is not over");
    audit(&library, &[entry(&library, "young", 0)]).await;
    library.set_clock_forward(31 * DAY);
    run(&library, 30 * DAY).await;
    assert_eq!(actions(&library).await, ["young", "change"]);
    let lines = crate::log::with("audit.old-reads");
    assert!(matches!(&lines[..], [line] if line.contains("1020")), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn retention_time_of_reads_is_at_least_seven_days() {
    let library = Library::sending([lent()]);
    audit(&library, &[entry(&library, "read", 0)]).await;
    library.set_clock_forward(7 * DAY - Duration::from_secs(1));
    run(&library, DAY).await;
    assert_eq!(actions(&library).await, ["read"]);
    library.set_clock_forward(7 * DAY + Duration::from_secs(1));
    run(&library, DAY).await;
    assert!(actions(&library).await.is_empty());
}
