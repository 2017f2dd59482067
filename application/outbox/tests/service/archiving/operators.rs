//! Operators archive and restore events.

use std::time::Duration;

use handover_outbox::archive::KeptBecause;
use handover_outbox::operations::{
    ArchiveEvents, Named, OperationError, Operator, Reason, RedriveEvents, RedriveRate, RedriveSelection,
    RestoreEvents, RestoreSelection, Restored, archive_events, audit_log, find_event, redrive_events,
    restore_events,
};
use handover_outbox::ports::*;

use super::faults::{Fault, Files};
use super::{DAY, library, of_all, platform, restore, run};
use crate::library::{Library, event_id};

impl Library {
    /// Number of changed rows and action of the newest audit entries.
    async fn audited(&self, entries: u32) -> Vec<(u64, String)> {
        let filter = AuditFilter::default();
        let page = audit_log(&self.outbox, &platform(), filter, None, entries).await.unwrap().items;
        page.into_iter().map(|entry| (entry.effect.changed, entry.effect.action)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn operator_of_all_tenants_archives_events_and_the_call_is_audited() {
    let library = library().await;
    let archive = library.archive(&Files::with(Fault::None));
    let command = |older_than: Option<Duration>, dry_run| ArchiveEvents { older_than, dry_run };
    let own_tenant = Operator { sees_all_tenants: false, ..platform() };
    let refused = archive_events(&archive, &own_tenant, command(None, false)).await;
    assert!(matches!(refused, Err(OperationError::ForAllTenants)), "{refused:?}");
    let later = archive_events(&archive, &platform(), command(Some(41 * DAY), false)).await.unwrap();
    assert_eq!((later.events, later.kept.get(&KeptBecause::Recent)), (0, Some(&3)));
    let preview = archive_events(&archive, &platform(), command(None, true)).await.unwrap();
    assert_eq!((preview.events, library.places().await), (3, (3, 0)));
    let report = archive_events(&archive, &platform(), command(None, false)).await.unwrap();
    assert_eq!((report.events, library.places().await), (3, (0, 3)));
    let entries = [3, 0, 0].map(|changed| (changed, "outbox.archive".to_owned()));
    assert_eq!(library.audited(3).await, entries);
}

#[tokio::test(start_paused = true)]
async fn failed_call_is_audited_with_what_it_did() {
    let library = library().await;
    let archive = library.archive(&Files::with(Fault::RefusesWrites));
    let command = ArchiveEvents { older_than: None, dry_run: false };
    let failed = archive_events(&archive, &platform(), command).await;
    assert!(matches!(failed, Err(OperationError::Archive(_))), "{failed:?}");
    assert_eq!(library.audited(1).await, [(0, "outbox.archive".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn archived_event_is_neither_shown_nor_redriven_but_named_with_the_command_that_restores_it() {
    let library = library().await;
    let archive = library.archive(&Files::with(Fault::None));
    run(&archive).await.unwrap();
    let command = || RedriveEvents {
        rows: RedriveSelection::Events(Named::new(vec![event_id("b")]).unwrap()),
        dry_run: false,
        pace: RedriveRate::default(),
        reason: None,
    };
    let text = "the event b is in the archive; restore it first: `handover outbox restore --event b`";
    let redriven = redrive_events(&library.outbox, &platform(), command()).await.unwrap_err();
    let shown = find_event(&library.outbox, &platform(), &event_id("b")).await.unwrap_err();
    assert_eq!((redriven.to_string(), shown.to_string()), (text.to_owned(), text.to_owned()));
    let of_other_tenant = Operator { tenant: 2.try_into().unwrap(), sees_all_tenants: false, ..platform() };
    let hidden = find_event(&library.outbox, &of_other_tenant, &event_id("b")).await;
    assert!(matches!(hidden, Err(OperationError::NotFound { .. })), "{hidden:?}");
    restore(&archive, of_all()).await.unwrap();
    assert_eq!(redrive_events(&library.outbox, &platform(), command()).await.unwrap().redriven, 1);
}

#[tokio::test(start_paused = true)]
async fn events_are_restored_by_id_aggregate_and_period_and_each_call_is_audited() {
    let library = library().await;
    let archive = library.archive(&Files::with(Fault::None));
    let happened = library.row("a").await.create_time;
    run(&archive).await.unwrap();
    let named = Named::new(vec![event_id("b"), event_id("unknown")]).unwrap();
    let by_id = restore(&archive, RestoreSelection::Events(named)).await.unwrap();
    assert_eq!(by_id, Restored { restored: 1, not_found: vec![event_id("unknown")], more: false });
    let about = library.event("x", "BOOK_LENT", 1, 1, "{}").aggregate;
    assert_eq!(restore(&archive, RestoreSelection::Aggregate(about)).await.unwrap().restored, 1);
    assert_eq!(library.stored().await.iter().map(|it| it.event_id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let second = chrono::TimeDelta::seconds(1);
    let later = RestoreSelection::Period { from: happened + second, to: happened + second * 2 };
    assert_eq!(restore(&archive, later).await.unwrap().restored, 0);
    let period = RestoreSelection::Period { from: happened, to: happened + second };
    assert_eq!(restore(&archive, period).await.unwrap().restored, 1);
    assert_eq!(library.places().await, (3, 0));
    let entries = [1, 0, 1, 1].map(|changed| (changed, "outbox.restore".to_owned()));
    assert_eq!(library.audited(4).await, entries);
}

#[tokio::test(start_paused = true)]
async fn operator_of_another_tenant_restores_nothing() {
    let library = library().await;
    let archive = library.archive(&Files::with(Fault::None));
    run(&archive).await.unwrap();
    let of_other_tenant = Operator { tenant: 2.try_into().unwrap(), sees_all_tenants: false, ..platform() };
    let reason = Reason::new("curious".to_owned()).unwrap();
    let command = RestoreEvents { events: of_all(), reason };
    let refused = restore_events(&archive, &of_other_tenant, command).await.unwrap();
    assert_eq!((refused.restored, refused.not_found.len(), library.places().await), (0, 3, (0, 3)));
}
