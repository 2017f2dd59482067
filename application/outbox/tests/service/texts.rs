//! Texts about failures and duplicates: English, unless the application replaces them.

use handover_events::OutboxStatus;
use handover_outbox::ports::Message;
use handover_outbox::{EventSpec, Texts};

use crate::library::{Library, event_id, eventually};
use crate::{lent, loans, log, noted};

/// Reasons of the dead letters, the last error of the event that cannot be published, and the log lines of a library
/// in which an event has an unregistered type, one has a type that the consumer does not handle, one has an invalid
/// payload, one message is not an event, and one message arrives twice.
async fn failing_day(texts: Option<Texts>) -> (Vec<String>, String, Vec<String>) {
    let library =
        Library::sending([lent(), noted(), EventSpec::new("BOOK_BOUND", "book.bound")]).with(&loans());
    let library = match texts {
        Some(texts) => library.with_texts(texts),
        None => library,
    };
    let library = library.started().await;
    let events = [
        library.event("burnt", "BOOK_BURNT", 1, 1, "{}"),
        library.event("bound", "BOOK_BOUND", 2, 1, "{}"),
        library.event("broken", "BOOK_LENT", 3, 1, "{}"),
        library.event("fine", "BOOK_LENT", 4, 1, r#"{"reader":3}"#),
    ];
    library.commit(events.to_vec()).await;
    library.inject(Message { body: "no event".to_owned(), ..Message::default() });
    eventually(async || library.ids("LOAN_NOTED").await == ["fine-noted-1"]).await;
    library.redrive("fine").await;
    eventually(async || library.dead_letters().await.len() == 3).await;
    eventually(async || library.row("burnt").await.status == OutboxStatus::Failed).await;
    for dead_letter in
        library.dead_letters().await.iter().filter(|it| it.key.parse() == Ok(event_id("broken")))
    {
        let mut view = library.outbox.view().await.unwrap();
        let record = view.outbox_view().consumption("loans", &event_id("broken")).await.unwrap().unwrap();
        assert_eq!(record.error_message.as_ref(), Some(&dead_letter.reason));
    }
    let mut reasons: Vec<String> = library.dead_letters().await.into_iter().map(|it| it.reason).collect();
    reasons.sort();
    (reasons, library.row("burnt").await.last_error.unwrap_or_default(), log::lines())
}

#[tokio::test(start_paused = true)]
async fn texts_of_failures_and_duplicates_are_english() {
    let (reasons, last_error, lines) = failing_day(None).await;
    assert_eq!(
        reasons,
        [
            "consuming failed: invalid payload of BOOK_LENT: missing field `reader` at line 1 column 2",
            "consuming failed: the message is not a JSON object: expected ident at line 1 column 2",
            "event type not supported: BOOK_BOUND",
        ]
    );
    assert_eq!(last_error, "publishing failed: event type not supported: BOOK_BURNT");
    assert!(
        lines.iter().any(|line| line.contains("event already applied; duplicate message ignored")),
        "{lines:#?}"
    );
    assert_eq!(lines.iter().filter(|line| !line.is_ascii()).collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn application_replaces_the_texts() {
    let (reasons, last_error, lines) = failing_day(Some(Texts {
        duplicate: "déjà appliqué".into(),
        unsupported_type: "type inconnu".into(),
        publish_failed: "envoi impossible".into(),
        consume_failed: "réception impossible".into(),
    }))
    .await;
    let beginnings: Vec<&str> = reasons.iter().filter_map(|reason| reason.split(": ").next()).collect();
    assert_eq!(beginnings, ["réception impossible", "réception impossible", "type inconnu"]);
    assert_eq!(last_error, "envoi impossible: type inconnu: BOOK_BURNT");
    assert!(lines.iter().any(|line| line.contains("déjà appliqué")), "{lines:#?}");
    let default = Texts::default();
    let texts = [default.duplicate, default.unsupported_type, default.publish_failed, default.consume_failed];
    let english = texts.iter().filter(|text| lines.iter().any(|line| line.contains(text.as_ref())));
    assert_eq!(english.collect::<Vec<_>>(), [""; 0]);
}
