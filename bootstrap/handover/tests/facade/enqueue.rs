//! Events in the service's own transaction.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use handover::{EnqueueError, Event, EventType, Keyed, Options, Trace, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult, note};

async fn remind(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    note(connection, event.event_id(), &event.reader).await?;
    Ok(())
}

#[tokio::test]
async fn event_of_rolled_back_transaction_is_never_published() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().consumer("reminders", in_transaction(remind));
    let (outbox, running) = library.start(builder).await?;
    let mut tx = library.pool.begin().await?;
    outbox.enqueue(&mut tx, BookLent::to("ann")).await?;
    tx.rollback().await?;
    library.lend(&outbox, BookLent::to("ben")).await?;
    library.consumed("SUCCESS", 1).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.notes().await?, ["ben"]);
    assert_eq!(library.count("SELECT count(*) FROM outbox_events").await?, 1);
    Ok(())
}

#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.lend", aggregate = "book")]
struct BookLend {
    #[event(key)]
    book: i64,
}

#[tokio::test]
async fn unregistered_type_is_refused_with_the_nearest_name() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().event::<BookLent>().event::<ReaderLeft>().build()?;
    let mut tx = library.pool.begin().await?;
    let refused = outbox.enqueue(&mut tx, BookLend { book: 1 }).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the event type \"book.lend\" is not registered (the nearest name that is: \"book.lent\"); add \
         `.event::<facade::enqueue::BookLend>()` or a consumer of it to the builder"
    );
    assert!(!refused.is_transient());
    Ok(())
}

#[tokio::test]
async fn connection_outside_of_a_transaction_is_refused() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().event::<BookLent>().build()?;
    outbox.migrate().await?;
    let mut connection = library.pool.acquire().await?;
    let refused = outbox.enqueue(&mut connection, BookLent::to("ann")).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the connection is in no transaction: the event must be committed together with the change that it announces; \
         begin a transaction with `pool.begin()` and pass `&mut tx`"
    );
    assert_eq!(library.count("SELECT count(*) FROM outbox_events").await?, 0);
    Ok(())
}

/// An event that serde writes as a number.
#[derive(Serialize, Deserialize, Event)]
#[serde(from = "i64", into = "i64")]
#[derive(Clone)]
#[event(name = "reader.left", aggregate = "reader")]
struct ReaderLeft {
    #[event(key)]
    reader: i64,
}

impl From<i64> for ReaderLeft {
    fn from(reader: i64) -> ReaderLeft {
        ReaderLeft { reader }
    }
}

impl From<ReaderLeft> for i64 {
    fn from(event: ReaderLeft) -> i64 {
        event.reader
    }
}

/// An event that serde cannot write as JSON.
#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.moved", aggregate = "book")]
struct BookMoved {
    #[event(key)]
    book: i64,
    shelves: BTreeMap<(i64, i64), String>,
}

#[tokio::test]
async fn payload_that_is_no_object_is_refused_and_the_transaction_stays_usable() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().event::<ReaderLeft>().event::<BookMoved>().event::<BookLent>();
    let outbox = builder.build()?;
    outbox.migrate().await?;
    let mut tx = library.pool.begin().await?;
    let refused = outbox.enqueue(&mut tx, ReaderLeft { reader: 1 }).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the payload of \"reader.left\" is not a JSON object, so no consumer could read it; an event is a struct with \
         named fields that serde writes as an object"
    );
    let moved = BookMoved { book: 1, shelves: BTreeMap::from([((1, 2), "A".to_owned())]) };
    let refused = outbox.enqueue(&mut tx, moved).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the payload of \"book.moved\" cannot be written as JSON: key must be a string"
    );
    outbox.enqueue(&mut tx, BookLent::to("ann")).await?;
    tx.commit().await?;
    assert_eq!(library.count("SELECT count(*) FROM outbox_events").await?, 1);
    Ok(())
}

#[tokio::test]
async fn missing_table_is_an_error_that_contains_the_message_of_the_database() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().event::<BookLent>().build()?;
    let mut tx = library.pool.begin().await?;
    let refused = outbox.enqueue(&mut tx, BookLent::to("ann")).await.unwrap_err();
    assert!(matches!(refused, EnqueueError::Store(_)), "{refused:?}");
    assert!(refused.to_string().contains("no such table: outbox_events"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn events_are_enqueued_together_with_their_ids_in_the_given_order() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().consumer("reminders", in_transaction(remind));
    let (outbox, running) = library.start(builder).await?;
    let events = [(2, "ann"), (1, "ben"), (2, "cem")]
        .map(|(book, reader)| BookLent { book, reader: reader.to_owned() });
    let mut tx = library.pool.begin().await?;
    let ids = outbox.enqueue_many(&mut tx, events).await?;
    tx.commit().await?;
    library.consumed("SUCCESS", 3).await?;
    running.stop(STOP_LIMIT).await?;
    let mut found = Vec::new();
    for id in ids {
        let of_event = sqlx::query_scalar::<_, String>("SELECT note FROM effects WHERE event_id = ?");
        found.push(of_event.bind(id.as_str()).fetch_one(&library.pool).await?);
    }
    assert_eq!(found, ["ann", "ben", "cem"]);
    let notes = library.notes().await?;
    let of_book_2: Vec<&String> = notes.iter().filter(|note| *note != "ben").collect();
    assert_eq!(of_book_2, ["ann", "cem"]);
    Ok(())
}

/// What a handler sees of an event besides its payload.
async fn describe(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    let facts = format!(
        "{} at {} in trace {} and request {:?} of tenant {}: {}",
        event.sequence(),
        event.occurred_at(),
        event.trace_id(),
        event.request_id(),
        event.tenant(),
        event.clone().into_payload().reader
    );
    note(connection, event.event_id(), &facts).await?;
    Ok(())
}

#[tokio::test]
async fn options_reach_the_handler() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().consumer("reminders", in_transaction(describe));
    let (outbox, running) = library.start(builder).await?;
    let options = Options::default()
        .occurred_at(DateTime::<Utc>::UNIX_EPOCH)
        .tenant(7.try_into()?)
        .trace(Trace { trace_id: "trace-1".to_owned(), traceparent: None })
        .request_id("request-1")
        .sequence(12)
        .max_retries(5);
    let mut tx = library.pool.begin().await?;
    outbox.enqueue_with(&mut tx, BookLent::to("ann"), options).await?;
    tx.commit().await?;
    outbox.wake();
    library.consumed("SUCCESS", 1).await?;
    running.stop(STOP_LIMIT).await?;
    let expected =
        "12 at 1970-01-01 00:00:00 UTC in trace trace-1 and request Some(\"request-1\") of tenant 7: ann";
    assert_eq!(library.notes().await?, [expected]);
    assert_eq!(library.count("SELECT max_retry_count FROM outbox_events").await?, 5);
    Ok(())
}

/// The column of MySQL and MariaDB is an `INT`.
#[tokio::test]
async fn number_of_retries_that_no_column_can_hold_is_limited() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().event::<BookLent>().build()?;
    outbox.migrate().await?;
    let mut tx = library.pool.begin().await?;
    outbox.enqueue_with(&mut tx, BookLent::to("ann"), Options::default().max_retries(u32::MAX)).await?;
    tx.commit().await?;
    assert_eq!(library.count("SELECT max_retry_count FROM outbox_events").await?, i64::from(i32::MAX));
    Ok(())
}

#[tokio::test]
async fn position_below_1_is_refused_and_the_transaction_stays_usable() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().event::<BookLent>().build()?;
    outbox.migrate().await?;
    let mut tx = library.pool.begin().await?;
    for sequence in [0, -1] {
        let options = Options::default().sequence(sequence);
        let refused = outbox.enqueue_with(&mut tx, BookLent::to("ann"), options).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "the position of \"book.lent\" within its aggregate is {sequence}: positions begin at 1, and a service that receives \
                 events does not accept a smaller one; add 1 to your version, for all events of the aggregate type"
            )
        );
    }
    outbox.enqueue_with(&mut tx, BookLent::to("ann"), Options::default().sequence(1)).await?;
    tx.commit().await?;
    assert_eq!(library.count("SELECT aggregate_seq FROM outbox_events").await?, 1);
    Ok(())
}

/// As they may be in the headers of a client.
#[tokio::test]
async fn ids_that_a_message_cannot_carry_are_refused_and_an_invalid_traceparent_is_ignored() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().event::<BookLent>().build()?;
    outbox.migrate().await?;
    let mut tx = library.pool.begin().await?;
    let long = "x".repeat(300);
    let trace = Options::default().trace(Trace::new(long.as_str()));
    let request = Options::default().request_id("a b");
    for (options, what, shown) in [(trace, "trace id", &long[..64]), (request, "request id", "a b")] {
        let refused = outbox.enqueue_with(&mut tx, BookLent::to("ann"), options).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "the {what} of \"book.lent\" is {shown:?}: an id has 1 to 64 characters of `[A-Za-z0-9_-]`, because not every \
                 broker accepts a message with another one; check the header of a client with `Trace::is_valid_id`, and leave an \
                 invalid one out"
            )
        );
    }
    let given = Options::default().trace(Trace::new("trace-1").with_parent(long));
    outbox.enqueue_with(&mut tx, BookLent::to("ann"), given).await?;
    tx.commit().await?;
    let metadata: String =
        sqlx::query_scalar("SELECT metadata FROM outbox_events").fetch_one(&library.pool).await?;
    assert_eq!(metadata, "{\"traceId\":\"trace-1\"}");
    Ok(())
}

#[derive(Serialize, Deserialize, Event)]
#[serde(rename_all = "camelCase")]
#[event(
    name = "book.returned",
    aggregate = "book",
    routing_key = "library.returned",
    summary = "A book is back.",
    unordered
)]
struct BookReturned {
    #[event(key)]
    #[serde(rename = "bookNumber")]
    book: i64,
    #[event(visible)]
    days_late: i64,
    reader: Option<String>,
}

#[test]
fn derive_macro_reads_its_attributes_and_the_names_of_serde() {
    assert_eq!(BookReturned::NAME, "book.returned");
    assert_eq!(BookReturned::AGGREGATE, "book");
    assert_eq!(BookReturned::ROUTING_KEY, "library.returned");
    assert_eq!(BookReturned::SUMMARY, "A book is back.");
    const { assert!(!BookReturned::IS_ORDERED) };
    assert_eq!(BookReturned::KEY_FIELD, "bookNumber");
    assert_eq!(BookReturned::visible_fields(), ["daysLate"]);
    assert_eq!(*BookReturned { book: 3, days_late: 0, reader: None }.key(), 3);
    assert_eq!(BookLent::ROUTING_KEY, "book.lent");
}

/// Declares an event whose names in JSON have a case of serde, and checks the names of the derive macro.
macro_rules! follows_serde {
    ($case:literal, $type:ident) => {{
        #[derive(Serialize, Deserialize, Event)]
        #[serde(rename_all = $case)]
        #[event(name = "book.cased", aggregate = "book")]
        struct $type {
            #[event(key, visible)]
            book_number: i64,
            #[event(visible)]
            r#type: i64,
            #[event(visible)]
            _shelf_2b: i64,
            #[event(visible)]
            #[serde(rename(serialize = "Written", deserialize = "Read"))]
            other: i64,
        }
        let event = $type { book_number: 3, r#type: 1, _shelf_2b: 2, other: 4 };
        let json = serde_json::to_value(&event).unwrap();
        let names = $type::visible_fields();
        assert_eq!(json.as_object().unwrap().len(), names.len());
        for name in names {
            assert!(json.get(name).is_some(), "{}: {name} is not in {json}", $case);
        }
        assert_eq!(json[$type::KEY_FIELD], 3, "{}", $case);
    }};
}

#[test]
fn derive_macro_follows_every_case_of_serde() {
    follows_serde!("lowercase", Lower);
    follows_serde!("UPPERCASE", Upper);
    follows_serde!("PascalCase", Pascal);
    follows_serde!("camelCase", Camel);
    follows_serde!("snake_case", Snake);
    follows_serde!("SCREAMING_SNAKE_CASE", UpperSnake);
    follows_serde!("kebab-case", Kebab);
    follows_serde!("SCREAMING-KEBAB-CASE", UpperKebab);
}

/// An event that is nested too deeply to be read.
#[derive(Serialize, Deserialize, Event)]
#[event(name = "shelf.nested", aggregate = "shelf")]
struct ShelfNested {
    #[event(key)]
    shelf: i64,
    content: serde_json::Value,
}

#[tokio::test]
async fn payload_that_is_nested_too_deeply_to_be_read_is_refused() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().event::<ShelfNested>().build()?;
    outbox.migrate().await?;
    let mut tx = library.pool.begin().await?;
    let content = (0..200).fold(serde_json::Value::Null, |content, _| serde_json::json!([content]));
    let refused = outbox.enqueue(&mut tx, ShelfNested { shelf: 1, content }).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no consumer could read the payload of \"shelf.nested\": recursion limit exceeded; nest its values less \
         deeply"
    );
    Ok(())
}

#[tokio::test]
async fn event_that_is_not_due_holds_back_later_events_of_its_aggregate_only() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().consumer("reminders", in_transaction(remind));
    let (outbox, running) = library.start(builder).await?;
    let mut tx = library.pool.begin().await?;
    let later = "2999-01-01T00:00:00Z".parse()?;
    outbox.enqueue_at(&mut tx, BookLent::to("ann"), later).await?;
    outbox.enqueue(&mut tx, BookLent::to("ben")).await?;
    outbox.enqueue(&mut tx, BookLent { book: 2, reader: "cid".to_owned() }).await?;
    tx.commit().await?;
    library.consumed("SUCCESS", 1).await?;
    running.stop(STOP_LIMIT).await?;
    assert_eq!(library.notes().await?, ["cid"]);
    Ok(())
}
