//! Events that leave the outbox for the archive, and return to it.

use handover_events::{AggregateRef, EventId};
use handover_outbox::ports::{
    ArchiveFile, ArchivedEvent, Changed, Consumption, Erasure, NewEvent, Numbered, OutboxFilter, StoreError,
    StoredEvent, StoredValue, UnrecordedFile, UnrecordedState,
};
use tokio::sync::oneshot;

use super::super::within;
use super::outbox::{append, row};
use super::{StoreRig, begin, in_unit, view};
use crate::samples::{
    aggregate, confirmed, consumption, event, event_id, later, redrive, start, tenant, to_failed,
};
use crate::work::{commit, is_conflict};

fn file(name: &str) -> ArchiveFile {
    ArchiveFile {
        name: name.to_owned(),
        events: 1,
        records: 1,
        bytes: 3_000_000_000,
        sha256: "ab".repeat(32),
        first_id: 1,
        last_id: 9,
        create_time: start(),
        done_time: None,
        erased: None,
    }
}

/// Commits events that are sent and applied by one consumer.
pub(super) async fn settled(rig: &dyn StoreRig, events: &[NewEvent]) {
    let records: Vec<Consumption> = events.iter().map(|event| consumption("loans", event)).collect();
    let proofs: Vec<_> = events.iter().map(|event| confirmed(event.event_id.as_str())).collect();
    let proofs: Vec<_> = proofs.iter().collect();
    append(rig, events).await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_sent(&proofs, later(1)).await.unwrap();
        unit.outbox().record(&records).await.unwrap();
    });
}

pub(super) async fn stored(rig: &dyn StoreRig, ids: &[&str]) -> Vec<StoredEvent> {
    let events: Vec<EventId> = ids.iter().map(|id| event_id(id)).collect();
    view(rig).await.outbox_view().stored_events(&events).await.expect("the stored values are read")
}

/// Archives these events and returns those that left the outbox.
pub(super) async fn archive(rig: &dyn StoreRig, events: &[StoredEvent]) -> Vec<EventId> {
    in_unit!(rig, |unit| unit.outbox().archive(7, events).await.expect("events are archived"))
}

async fn archived(rig: &dyn StoreRig, id: &str) -> Vec<ArchivedEvent> {
    view(rig).await.outbox_view().archived_by_event(&[event_id(id)]).await.expect("archived events")
}

async fn rows(rig: &dyn StoreRig, id: &str) -> (usize, usize) {
    let mut view = view(rig).await;
    let rows = view.outbox_view().outbox_by_event(&[event_id(id)]).await.unwrap().len();
    (rows, view.outbox_view().consumed_of(&[event_id(id)]).await.unwrap().len())
}

/// An archived event leaves the outbox with its records; what the database keeps of it is found by event and by aggregate.
/// Other events stay.
pub async fn an_archived_event_leaves_the_outbox_with_its_records(rig: &dyn StoreRig) {
    settled(rig, &[event("b", 7, 2), event("a", 7, 1), event("other", 8, 1)]).await;
    let before = row(rig, "a").await;
    let events = stored(rig, &["a", "b", "missing"]).await;
    assert_eq!(events.iter().map(|it| it.event_id.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    let mut left = archive(rig, &events).await;
    left.sort();
    assert_eq!(left, [event_id("a"), event_id("b")]);
    assert_eq!(
        (rows(rig, "a").await, rows(rig, "b").await, rows(rig, "other").await),
        ((0, 0), (0, 0), (1, 1))
    );
    let expected = ArchivedEvent {
        id: before.id,
        event_id: before.event_id,
        event_type: before.event_type,
        aggregate: before.aggregate,
        aggregate_seq: 1,
        create_time: before.create_time,
        file: 7,
    };
    assert_eq!(archived(rig, "a").await, std::slice::from_ref(&expected));
    assert_eq!(archived(rig, "other").await, []);
    let about = [aggregate(7), aggregate(8), aggregate(7)];
    let about = view(rig).await.outbox_view().archived_about(&about).await.unwrap();
    assert_eq!(about.iter().map(|it| it.aggregate_seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(about[0], expected);
    assert_eq!(archive(rig, &events).await, [], "they have left already");
}

/// An event of which any value or record has changed since it was read stays, and so does one that is not sent.
pub async fn only_unchanged_sent_events_are_archived(rig: &dyn StoreRig) {
    let events = ["redriven", "applied-again", "same"].map(|id| event(id, 7, 1));
    settled(rig, &events).await;
    append(rig, &[event("new", 7, 2), event("failed", 7, 3)]).await;
    in_unit!(rig, |unit| unit.outbox().mark_failed(&[to_failed("failed")], later(1)).await.unwrap());
    let read = stored(rig, &["redriven", "applied-again", "same", "new", "failed"]).await;
    in_unit!(rig, |unit| {
        let redriven = [redrive("redriven", later(2))];
        unit.outbox().redrive(&redriven, later(2)).await.unwrap();
        unit.outbox().mark_sent(&[&confirmed("redriven")], later(3)).await.unwrap();
        unit.outbox().record(&[consumption("fines", &events[1])]).await.unwrap();
    });
    assert_eq!(archive(rig, &read).await, [event_id("same")]);
    for id in ["redriven", "applied-again", "new", "failed"] {
        assert_eq!((rows(rig, id).await.0, archived(rig, id).await), (1, vec![]), "{id}");
    }
}

/// Of an unfinished redrive and an archiving at the same time, one takes effect.
pub async fn a_concurrently_redriven_event_is_not_archived(rig: &dyn StoreRig) {
    settled(rig, &[event("e", 7, 1)]).await;
    let read = stored(rig, &["e"]).await;
    let mut operator = begin(rig).await;
    assert_eq!(operator.outbox().redrive(&[redrive("e", later(2))], later(2)).await.unwrap().len(), 1);
    let (store, (started, starts)) = (rig.store(), oneshot::channel());
    let archiving = tokio::spawn(async move {
        started.send(()).unwrap();
        loop {
            let work = async {
                let mut unit = store.begin().await?;
                let left = unit.outbox().archive(7, &read).await?;
                unit.commit().await?;
                Ok(left)
            };
            match work.await {
                Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
                outcome => return outcome,
            }
        }
    });
    starts.await.unwrap();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    commit(operator).await;
    let left = within("archiving", archiving).await.expect("the task ends").expect("it is archived or not");
    assert_eq!((left, rows(rig, "e").await), (vec![], (1, 1)));
}

/// The numbers that the store assigns are higher than those of archived events, also if no event of the aggregate is left.
pub async fn numbers_continue_after_archived_events(rig: &dyn StoreRig) {
    let unnumbered = |id: &str| NewEvent { aggregate_seq: None, ..event(id, 7, 0) };
    settled(rig, &[unnumbered("first"), event("numbered", 8, 41)]).await;
    archive(rig, &stored(rig, &["first", "numbered"]).await).await;
    let others = NewEvent { aggregate_seq: None, ..event("after", 8, 0) };
    append(rig, &[unnumbered("second"), others]).await;
    assert_eq!((row(rig, "second").await.aggregate_seq, row(rig, "after").await.aggregate_seq), (2, 42));
}

/// A new consumer is subscribed to the events after the archived ones.
pub async fn a_new_consumer_is_subscribed_after_archived_events(rig: &dyn StoreRig) {
    settled(rig, &[event("e", 7, 1)]).await;
    let id = row(rig, "e").await.id;
    archive(rig, &stored(rig, &["e"]).await).await;
    let subscription =
        in_unit!(rig, |unit| unit.outbox().subscribe_consumer("fines", start()).await.unwrap());
    assert_eq!(subscription.after_id, id);
}

/// A restored event has the same values and records as before; it is in the outbox or in the archive, never in both.
pub async fn a_restored_event_is_as_before(rig: &dyn StoreRig) {
    settled(rig, &[event("e", 7, 1), event("f", 7, 2)]).await;
    let read = stored(rig, &["e", "f"]).await;
    let restore = async |events: &[StoredEvent]| {
        in_unit!(rig, |unit| unit.outbox().restore(events, later(3)).await.expect("events are restored"))
    };
    assert_eq!(restore(&read).await, [], "they are not archived");
    archive(rig, &read).await;
    assert_eq!(restore(&read[..1]).await, [event_id("e")]);
    assert_eq!(restore(&read[..1]).await, [], "it has returned already");
    assert_eq!(stored(rig, &["e", "f"]).await, read[..1]);
    assert_eq!(row(rig, "e").await.restored_time, Some(later(3)));
    assert_eq!((archived(rig, "e").await.len(), archived(rig, "f").await.len()), (0, 1));
    assert_eq!(archive(rig, &read[..1]).await, [event_id("e")]);
    let later = Consumption { attempts: 5, ..consumption("loans", &event("e", 7, 1)) };
    in_unit!(rig, |unit| unit.outbox().record(&[later]).await.unwrap());
    assert_eq!(restore(&read[..1]).await, [event_id("e")]);
    let records = view(rig).await.outbox_view().consumed_of(&[event_id("e")]).await.unwrap();
    let attempts: Vec<u32> = records.iter().map(|it| it.record.attempts).collect();
    assert_eq!(attempts, [5], "a record that was written after the event was archived stays");
}

/// An archiving that is not committed changes nothing.
pub async fn a_dropped_unit_of_work_archives_nothing(rig: &dyn StoreRig) {
    settled(rig, &[event("e", 7, 1)]).await;
    let read = stored(rig, &["e"]).await;
    let mut unit = begin(rig).await;
    unit.outbox().add_archive_file(&file("a")).await.unwrap();
    assert_eq!(unit.outbox().archive(7, &read).await.unwrap(), [event_id("e")]);
    drop(unit);
    assert_eq!((stored(rig, &["e"]).await, archived(rig, "e").await), (read, vec![]));
    assert_eq!(view(rig).await.outbox_view().archive_files(None, 9).await.unwrap(), []);
}

/// A file is recorded once under its name; unfinished files are found.
pub async fn files_of_the_archive_are_recorded_until_they_are_done(rig: &dyn StoreRig) {
    let (a, b) = in_unit!(rig, |unit| {
        let a = unit.outbox().add_archive_file(&file("a")).await.unwrap();
        (a, unit.outbox().add_archive_file(&ArchiveFile { records: 2, ..file("A") }).await.unwrap())
    });
    let mut unit = begin(rig).await;
    is_conflict(unit.outbox().add_archive_file(&file("a")).await);
    drop(unit);
    in_unit!(rig, |unit| unit.outbox().finish_archive_file(a, later(5)).await.unwrap());
    let first = Numbered { id: a, effect: ArchiveFile { done_time: Some(later(5)), ..file("a") } };
    let second = Numbered { id: b, effect: ArchiveFile { records: 2, ..file("A") } };
    let mut view = view(rig).await;
    let view = view.outbox_view();
    assert_eq!(view.archive_files(None, 9).await.unwrap(), [second.clone(), first.clone()]);
    assert_eq!(view.archive_files(None, 1).await.unwrap(), std::slice::from_ref(&second));
    assert_eq!(view.archive_files(Some(b), 9).await.unwrap(), [first]);
    assert_eq!(view.unfinished_archive_files().await.unwrap(), [second]);
}

/// A page has the archived events that match the filter, greatest id first.
pub async fn archived_events_are_listed_in_pages(rig: &dyn StoreRig) {
    let of_other_tenant =
        NewEvent { aggregate: AggregateRef { tenant: tenant(2), ..aggregate(7) }, ..event("tenant", 7, 1) };
    let typed =
        NewEvent { event_type: "BOOK_RETURNED".to_owned(), occurred_at: later(9), ..event("typed", 8, 1) };
    settled(rig, &[event("a", 7, 1), event("b", 7, 2), of_other_tenant, typed, event("kept", 7, 3)]).await;
    archive(rig, &stored(rig, &["a", "b", "tenant", "typed"]).await).await;
    let pages = async |filter: OutboxFilter, before: Option<i64>, limit: u32| {
        let mut view = view(rig).await;
        let page = view.outbox_view().archived_page(&filter, before, limit).await.expect("a page is read");
        page.into_iter().map(|event| event.event_id.to_string()).collect::<Vec<_>>()
    };
    let all = OutboxFilter::default;
    let of = aggregate(7);
    let of_aggregate =
        || OutboxFilter { aggregate_type: Some(of.kind.clone()), aggregate_id: Some(of.id.clone()), ..all() };
    assert_eq!(pages(all(), None, 9).await, ["typed", "tenant", "b", "a"]);
    assert_eq!(pages(all(), None, 2).await, ["typed", "tenant"]);
    let b = archived(rig, "b").await.remove(0);
    assert_eq!(pages(all(), Some(b.id), 9).await, ["a"]);
    assert_eq!(pages(of_aggregate(), None, 9).await, ["tenant", "b", "a"]);
    assert_eq!(pages(of_aggregate(), Some(b.id), 9).await, ["a"]);
    let of_tenant = OutboxFilter { tenant: Some(of.tenant), ..of_aggregate() };
    assert_eq!(pages(of_tenant, None, 1).await, ["b"]);
    assert_eq!(pages(OutboxFilter { tenant: Some(tenant(2)), ..all() }, None, 9).await, ["tenant"]);
    let returned = OutboxFilter { event_type: Some("BOOK_RETURNED".to_owned()), ..all() };
    assert_eq!(pages(returned, None, 9).await, ["typed"]);
    assert_eq!(pages(OutboxFilter { from: Some(later(9)), ..all() }, None, 9).await, ["typed"]);
    assert_eq!(pages(OutboxFilter { to: Some(later(9)), ..all() }, None, 9).await, ["tenant", "b", "a"]);
    assert_eq!(pages(OutboxFilter { above_id: Some(b.id), ..all() }, None, 9).await, ["typed", "tenant"]);
    assert_eq!(pages(OutboxFilter { below_id: Some(b.id), ..all() }, None, 9).await, ["a"]);
    let by_id = OutboxFilter { aggregate_id: Some(of.id.clone()), ..all() };
    assert_eq!(pages(by_id, None, 9).await, ["tenant", "b", "a"]);
}

/// The stored values of an archived event are interpreted as the rows that they were.
pub async fn stored_values_are_interpreted_as_their_rows(rig: &dyn StoreRig) {
    settled(rig, &[event("e", 7, 1), NewEvent { aggregate_seq: None, ..event("f", 8, 0) }]).await;
    let (e, f) = (row(rig, "e").await, row(rig, "f").await);
    let records = view(rig).await.outbox_view().consumed_of(&[event_id("e"), event_id("f")]).await.unwrap();
    let read = stored(rig, &["e", "f"]).await;
    archive(rig, &read).await;
    let interpreted = view(rig).await.outbox_view().interpret_stored(&read).await.unwrap();
    let rows: Vec<_> = interpreted.iter().map(|event| event.row.clone()).collect();
    assert_eq!(rows, [e, f]);
    let of_events: Vec<_> = interpreted.into_iter().flat_map(|event| event.records).collect();
    assert_eq!(of_events, records);
    let mut unknown = read;
    unknown.iter_mut().for_each(|event| event.row.retain(|column, _| column == "id"));
    assert_eq!(view(rig).await.outbox_view().interpret_stored(&unknown).await.unwrap(), []);
}

/// The texts of an archived event can be masked in its stored values: the restored row has the masked texts.
pub async fn masked_values_of_an_archived_event_are_restored(rig: &dyn StoreRig) {
    settled(rig, &[event("e", 7, 1)]).await;
    let mut read = stored(rig, &["e"]).await;
    archive(rig, &read).await;
    let text = |text: &str| StoredValue::Text(text.to_owned());
    read[0].row.insert("payload".to_owned(), text("{\"masked\":true}"));
    read[0].row.insert("last_error".to_owned(), text("***"));
    read[0].row.insert("erased_time".to_owned(), StoredValue::Time(later(2)));
    read[0].row.insert("erased_reason".to_owned(), text("ticket 4711"));
    read[0].records[0].insert("consume_result".to_owned(), text("***"));
    let masked = view(rig).await.outbox_view().interpret_stored(&read).await.unwrap().remove(0).row;
    assert_eq!((masked.payload.as_str(), masked.erased_time), ("{\"masked\":true}", Some(later(2))));
    assert_eq!(masked.erased_reason.as_deref(), Some("ticket 4711"));
    in_unit!(rig, |unit| unit.outbox().restore(&read, later(3)).await.unwrap());
    let restored = row(rig, "e").await;
    assert_eq!((restored.payload, restored.last_error), (masked.payload, Some("***".to_owned())));
    assert_eq!((restored.erased_time, restored.erased_reason), (masked.erased_time, masked.erased_reason));
    let records = view(rig).await.outbox_view().consumed_of(&[event_id("e")]).await.unwrap();
    assert_eq!(records[0].consume_result.as_deref(), Some("***"));
}

/// A file is replaced if the record still has the name that the caller has read; what the record says about its events stays.
pub async fn a_file_is_replaced_by_the_one_who_has_read_it(rig: &dyn StoreRig) {
    let id = in_unit!(rig, |unit| unit.outbox().add_archive_file(&file("a")).await.unwrap());
    let erased = Some(Erasure { at: later(2), reason: "ticket 4711".to_owned() });
    let to = ArchiveFile { bytes: 5, sha256: "cd".repeat(32), erased, first_id: 0, ..file("b") };
    for (from, changed) in [("a", Changed::One), ("a", Changed::None), ("A", Changed::None)] {
        let replaced =
            in_unit!(rig, |unit| unit.outbox().replace_archive_file(id, from, &to).await.expect("replaced"));
        assert_eq!(replaced, changed, "from {from}");
    }
    let replaced = ArchiveFile { first_id: 1, ..to };
    let files = view(rig).await.outbox_view().archive_files(None, 9).await.unwrap();
    assert_eq!(files, [Numbered { id, effect: replaced.clone() }]);
    let locked = in_unit!(rig, |unit| unit.outbox().lock_archive_file(id).await.unwrap());
    assert_eq!(locked, Some(replaced));
    let unknown = in_unit!(rig, |unit| unit.outbox().lock_archive_file(id + 1).await.unwrap());
    assert_eq!(unknown, None);
}

/// While a unit of work has locked a file, another one cannot replace it.
pub async fn a_locked_file_is_not_replaced(rig: &dyn StoreRig) {
    let id = in_unit!(rig, |unit| unit.outbox().add_archive_file(&file("a")).await.unwrap());
    let mut restoring = begin(rig).await;
    assert!(restoring.outbox().lock_archive_file(id).await.unwrap().is_some());
    let (store, (started, starts)) = (rig.store(), oneshot::channel());
    let replacing = tokio::spawn(async move {
        started.send(()).unwrap();
        loop {
            let work = async {
                let mut unit = store.begin().await?;
                let changed = unit.outbox().replace_archive_file(id, "a", &file("b")).await?;
                unit.commit().await?;
                Ok(changed)
            };
            match work.await {
                Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
                outcome => return outcome,
            }
        }
    });
    starts.await.unwrap();
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    let is_replaced = replacing.is_finished();
    commit(restoring).await;
    let replaced = within("replacing", replacing).await.expect("the task ends").expect("it is replaced");
    assert_eq!((is_replaced, replaced), (false, Changed::One));
}

/// A file that is being written is recorded or given up, not both; it is known until then, and an obsolete one until it is removed.
pub async fn a_file_that_is_being_written_is_recorded_or_given_up(rig: &dyn StoreRig) {
    let writing = |name: &str| UnrecordedFile {
        name: name.to_owned(),
        state: UnrecordedState::Writing,
        since: later(1),
    };
    in_unit!(rig, |unit| {
        unit.outbox().add_unrecorded_file(&writing("b")).await.unwrap();
        unit.outbox().add_unrecorded_file(&writing("a")).await.unwrap();
    });
    let mut unit = begin(rig).await;
    is_conflict(unit.outbox().add_unrecorded_file(&writing("a")).await);
    drop(unit);
    let known =
        async |limit: u32| view(rig).await.outbox_view().unrecorded_files(limit).await.expect("files");
    assert_eq!((known(9).await, known(1).await), (vec![writing("a"), writing("b")], vec![writing("a")]));
    let give_up =
        async |name: &str| in_unit!(rig, |unit| unit.outbox().give_up_unrecorded_file(name).await.unwrap());
    let remove = async |name: &str, state| {
        in_unit!(rig, |unit| unit.outbox().remove_unrecorded_file(name, state).await.unwrap())
    };
    assert_eq!((give_up("a").await, give_up("a").await), (Changed::One, Changed::None));
    assert_eq!(remove("a", UnrecordedState::Writing).await, Changed::None);
    assert_eq!(remove("b", UnrecordedState::Writing).await, Changed::One);
    assert_eq!(give_up("b").await, Changed::None);
    assert_eq!(known(9).await, [UnrecordedFile { state: UnrecordedState::Obsolete, ..writing("a") }]);
    assert_eq!(remove("a", UnrecordedState::Obsolete).await, Changed::One);
    assert_eq!(known(9).await, []);
}
