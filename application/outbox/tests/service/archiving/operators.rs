//! Operators archive and restore events.

use std::time::Duration;

use handover_events::OutboxStatus;
use handover_outbox::MASK;
use handover_outbox::archive::{ArchiveStorageError, KeptBecause};
use handover_outbox::operations::{
    ArchiveEvents, Named, OperationError, Operator, Reason, RedriveEvents, RedriveFilter, RedriveRate,
    RedriveSelection, RestoreEvents, RestoreSelection, Restored, archive_events, archived_events, audit_log,
    find_event, redrive_events, restore_events,
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
async fn archived_event_is_not_redriven_and_the_error_names_the_command_that_restores_it() {
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
    // This process has no archive.
    let shown = find_event(&library.outbox, &platform(), &event_id("b")).await.unwrap_err();
    assert_eq!((redriven.to_string(), shown.to_string()), (text.to_owned(), text.to_owned()));
    restore(&archive, of_all()).await.unwrap();
    assert_eq!(redrive_events(&library.outbox, &platform(), command()).await.unwrap().redriven, 1);
}

#[tokio::test(start_paused = true)]
async fn redrive_by_aggregate_is_refused_while_matching_events_are_in_the_archive() {
    let library = library().await;
    let archive = library.archive(&Files::with(Fault::None));
    run(&archive).await.unwrap();
    let of_book = |filter: OutboxFilter| RedriveEvents {
        rows: RedriveSelection::Filter {
            filter: RedriveFilter::new(OutboxFilter {
                aggregate_type: Some("Book".to_owned()),
                aggregate_id: Some(2.into()),
                event_type: Some("BOOK_LENT".to_owned()),
                ..filter
            })
            .unwrap(),
            after: None,
        },
        dry_run: false,
        pace: RedriveRate::default(),
        reason: None,
    };
    let sent = || OutboxFilter { status: Some(OutboxStatus::Sent), ..OutboxFilter::default() };
    let redrive = async |filter| redrive_events(&library.outbox, &platform(), of_book(filter)).await;
    let refused = redrive(sent()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "events of Book 2 match but are in the archive; restore them first: `handover outbox restore --aggregate Book 2 \
         --tenant 1`"
    );
    let later = OutboxFilter { from: Some(library.outbox.now()), ..sent() };
    assert_eq!(redrive(later).await.unwrap().matched, 0, "the archived event is not of this period");
    assert_eq!(redrive(OutboxFilter::default()).await.unwrap().matched, 0, "archived events are not FAILED");
    restore(&archive, of_all()).await.unwrap();
    assert_eq!(redrive(sent()).await.unwrap().redriven, 1);
}

#[tokio::test(start_paused = true)]
async fn archived_event_is_shown_from_its_file_with_its_payload_as_the_operator_may_see_it() {
    let library = library().await;
    let files = Files::with(Fault::None);
    let row = library.row("b").await;
    run(&library.archive(&files)).await.unwrap();
    let outbox = library.outbox_with(&files);
    let show = async |operator: Operator| find_event(&outbox, &operator, &event_id("b")).await;
    let whole = show(Operator { sees_personal_data: true, ..platform() }).await.unwrap();
    assert_eq!((whole.row, whole.archive_file), (row.clone(), Some(files.names().remove(0))));
    let masked = show(platform()).await.unwrap().row;
    assert_eq!((masked.payload, masked.status), (format!(r#"{{"reader":"{MASK}"}}"#), OutboxStatus::Sent));
    let entries = [0, 0].map(|changed| (changed, "outbox.show".to_owned()));
    assert_eq!(library.audited(2).await, entries);
    let of_other_tenant = Operator { tenant: 2.try_into().unwrap(), sees_all_tenants: false, ..platform() };
    let hidden = show(of_other_tenant).await;
    assert!(matches!(hidden, Err(OperationError::NotFound { .. })), "{hidden:?}");
    files.lose_all();
    let lost = show(platform()).await.unwrap_err();
    assert!(matches!(lost, OperationError::Archive(ArchiveStorageError::Missing { .. })), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn archived_events_are_listed_in_pages_with_the_filters_of_the_outbox() {
    let library = library().await;
    run(&library.archive(&Files::with(Fault::None))).await.unwrap();
    let list = async |operator: Operator, filter: OutboxFilter, before: Option<i64>, limit: u32| {
        let page = archived_events(&library.outbox, &operator, filter, before, limit).await.unwrap();
        let ids: Vec<String> = page.items.iter().map(|event| event.event_id.to_string()).collect();
        (ids, page.next)
    };
    let all = OutboxFilter::default;
    let (ids, next) = list(platform(), all(), None, 2).await;
    assert_eq!(ids, ["c", "b"]);
    assert_eq!(list(platform(), all(), next, 2).await, (vec!["a".to_owned()], None));
    let of_book =
        OutboxFilter { aggregate_type: Some("Book".to_owned()), aggregate_id: Some(2.into()), ..all() };
    assert_eq!(list(platform(), of_book, None, 2).await, (vec!["b".to_owned()], None));
    let of_other_tenant = Operator { tenant: 2.try_into().unwrap(), sees_all_tenants: false, ..platform() };
    assert_eq!(list(of_other_tenant, all(), None, 2).await, (vec![], None));
    let misspelled = OutboxFilter { event_type: Some("BOOK_LEND".to_owned()), ..all() };
    let unknown = archived_events(&library.outbox, &platform(), misspelled, None, 2).await.unwrap_err();
    assert!(matches!(unknown, OperationError::UnknownName { .. }), "{unknown:?}");
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
async fn restore_from_several_files_has_an_audit_entry_of_each() {
    let library = library().await;
    library.commit(vec![library.event("later", "BOOK_LENT", 9, 1, r#"{"reader":3}"#)]).await;
    library.settled(&["later"]).await;
    library.set_clock_forward(80 * DAY);
    let files = Files::with(Fault::None);
    let archive = library.archive(&files);
    run(&archive).await.unwrap();
    let both = RestoreSelection::Events(Named::new(["a", "later"].map(event_id).to_vec()).unwrap());
    assert_eq!(restore(&archive, both).await.unwrap().restored, 2);
    let entries =
        audit_log(&library.outbox, &platform(), AuditFilter::default(), None, 2).await.unwrap().items;
    assert_eq!((entries.len(), files.names().len()), (2, 2));
    // The newest entry is the first.
    for (entry, file) in entries.iter().rev().zip(files.names()) {
        let selection = &entry.effect.selection;
        assert!(selection.contains(&format!(r#""file":"{file}""#)), "{selection}");
    }
}

#[tokio::test(start_paused = true)]
async fn operator_of_another_tenant_restores_nothing() {
    let library = library().await;
    let archive = library.archive(&Files::with(Fault::None));
    run(&archive).await.unwrap();
    let of_other_tenant = Operator { tenant: 2.try_into().unwrap(), sees_all_tenants: false, ..platform() };
    let reason = Reason::new("curious".to_owned()).unwrap();
    let command = RestoreEvents { events: of_all(), reason };
    let refused = restore_events(&archive, &of_other_tenant, command.clone()).await.unwrap();
    assert_eq!((refused.restored, refused.not_found.len(), library.places().await), (0, 3, (0, 3)));
    let about = library.event("x", "BOOK_LENT", 1, 1, "{}").aggregate;
    let command = RestoreEvents { events: RestoreSelection::Aggregate(about), ..command };
    let refused = restore_events(&archive, &of_other_tenant, command).await;
    assert!(matches!(refused, Err(OperationError::NotFound { what: "tenant" })), "{refused:?}");
}
