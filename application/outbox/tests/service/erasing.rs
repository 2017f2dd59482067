//! Erasure of the texts about a person.

use std::sync::Arc;

use handover_events::{AggregateRef, Json, TenantId, Trace};
use handover_outbox::archive::KeptBecause;
use handover_outbox::consumers::Subscriber;
use handover_outbox::operations::{Action, Operator, Reason, erase_audit_reasons, erase_events};
use handover_outbox::ports::*;
use handover_outbox::{EventSpec, MASK};

use crate::library::{Library, QUEUE, eventually};
use crate::{Loans, noted};

const LENT: &str =
    r#"{"reader":3,"name":"Ann Smith","due":"2026-03-04","note":"call Ann","at":[{"phone":138}]}"#;
const ERASED: &str = r#"{"reader":3,"name":"***","due":"2026-03-04","note":"***","at":"***"}"#;

fn lent() -> EventSpec {
    EventSpec::new("BOOK_LENT", "book.lent")
        .about("Book", "bookId")
        .visible(&["due", "note"])
        .kept(&["reader"])
}

fn operator() -> Operator {
    Operator {
        name: "user:9".to_owned(),
        tenant: TenantId::DEFAULT,
        sees_all_tenants: true,
        sees_personal_data: false,
        trace: Trace { trace_id: "trace-1".to_owned(), traceparent: None },
    }
}

const REASON: &str = "request of the reader";

fn erasure() -> Action {
    let reason = Reason::new(REASON.to_owned()).ok();
    Action { name: "readers.erase", selection: vec![("readerId".to_owned(), 3_i64.into())], reason }
}

fn book(id: i64) -> AggregateRef {
    AggregateRef { tenant: TenantId::DEFAULT, kind: "Book".to_owned(), id: id.into() }
}

impl Library {
    /// Lends book 1, and waits until the event is settled.
    async fn lent_to_ann(&self, id: &str) {
        self.commit(vec![self.event(id, "BOOK_LENT", 1, 1, LENT)]).await;
        eventually(async || self.consumed("loans", id).await.is_some() && self.is_quiet().await).await;
        eventually(async || self.row(id).await.sent_time.is_some()).await;
    }
}

async fn library() -> Library {
    let subscriber = Subscriber::new(QUEUE, Arc::new(Loans));
    Library::sending([lent(), noted()]).with(&subscriber).started().await
}

#[tokio::test(start_paused = true)]
async fn settled_event_is_masked_once_and_its_late_message_is_a_duplicate() {
    let library = library().await;
    library.lent_to_ann("e").await;
    let message = library.message("e").await;
    let erased = erase_events(&library.outbox, &operator(), &erasure(), &[book(1)]).await.unwrap();
    assert!(erased.rows >= 2, "the event and its record: {erased:?}");
    // The note that the handler appended has no queue: its row is FAILED.
    assert_eq!(erased.left, [(KeptBecause::Failed, 1)].into());
    let row = library.row("e").await;
    assert_eq!((row.payload.as_str(), row.erased_time), (ERASED, Some(library.outbox.now())));
    assert_eq!(row.erased_reason.as_deref(), Some(REASON));
    assert!(message.body.contains("Ann Smith"), "{}", message.body);
    library.inject(message);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(library.dead_letters().await, []);
    assert_eq!(library.ids("LOAN_NOTED").await, ["e-noted-1"], "the event is applied once");
    library.redrive("e").await;
    assert_eq!((library.dead_letters().await, library.row("e").await.payload), (vec![], ERASED.to_owned()));
    let again = erase_events(&library.outbox, &operator(), &erasure(), &[book(1)]).await.unwrap();
    assert_eq!(again.rows, 0);
}

#[tokio::test(start_paused = true)]
async fn message_that_contradicts_an_erased_event_is_dead_lettered() {
    let library = library().await;
    library.lent_to_ann("e").await;
    let message = library.message("e").await;
    erase_events(&library.outbox, &operator(), &erasure(), &[book(1)]).await.unwrap();
    let body = message.body.replace("\"reader\":3", "\"reader\":4");
    assert_ne!(body, message.body);
    library.inject(Message { body, ..message });
    eventually(async || !library.dead_letters().await.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn event_that_is_not_settled_is_left() {
    let library = Library::sending([lent()]);
    library.commit(vec![library.event("new", "BOOK_LENT", 1, 1, LENT)]).await;
    let erased = erase_events(&library.outbox, &operator(), &erasure(), &[book(1)]).await.unwrap();
    assert_eq!((erased.rows, erased.left), (0, [(KeptBecause::Pending, 1)].into()));
    assert_eq!(library.row("new").await.payload, LENT);
}

#[tokio::test(start_paused = true)]
async fn reasons_of_actions_on_the_aggregates_are_masked() {
    let library = library().await;
    library.lent_to_ann("e").await;
    let entry = |actor: &str, selection: &str, reason: &str| AuditEntry {
        tenant: TenantId::DEFAULT,
        actor: actor.to_owned(),
        action: "outbox.redrive".to_owned(),
        selection: selection.to_owned(),
        matched: 1,
        changed: 1,
        reason: Some(reason.to_owned()),
        trace_id: "trace-1".to_owned(),
        at: library.outbox.now(),
    };
    let entries = [
        entry("user:9", r#"{"eventIds":["e"]}"#, "by event"),
        entry("user:9", r#"{"aggregateType":"Book","aggregateId":1}"#, "by aggregate"),
        entry("user:9", r#"{"filter":{"aggregateId":1,"status":"SENT"}}"#, "by id"),
        entry("user:3", r#"{"status":"FAILED"}"#, "by actor"),
        entry("user:9", r#"{"eventIds":["unknown"],"aggregateType":"Book"}"#, "other"),
    ];
    let mut unit = library.tx.begin().await.unwrap();
    for entry in &entries {
        unit.outbox().audit(entry).await.unwrap();
    }
    unit.commit().await.unwrap();
    let is_about = |entry: &AuditEntry, _: &Json, about: &[AggregateRef]| {
        entry.actor == "user:3" || about.contains(&book(1))
    };
    for changed in [4, 0] {
        let erased = erase_audit_reasons(&library.outbox, &operator(), &erasure(), is_about).await.unwrap();
        assert_eq!(erased, changed);
    }
    let mut view = library.outbox.view().await.unwrap();
    let page = view.outbox_view().audit_page(&AuditFilter::default(), None, 10).await.unwrap();
    let reasons: Vec<String> = page.into_iter().rev().filter_map(|entry| entry.effect.reason).collect();
    assert_eq!(reasons, [MASK, MASK, MASK, MASK, "other", "request of the reader"]);
}
