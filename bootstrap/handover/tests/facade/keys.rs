//! Keys of aggregates: UUIDs and text beside integers.

use handover::{Event, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult, note};

#[derive(Serialize, Deserialize, Event)]
#[event(name = "reader.joined", aggregate = "reader")]
struct ReaderJoined {
    #[event(key)]
    reader: Uuid,
    name: String,
}

async fn greet(event: Event<ReaderJoined>, connection: &mut SqliteConnection) -> handover::Result {
    let text = format!("{} {}", event.aggregate_id(), event.name);
    note(connection, event.event_id(), &text).await?;
    Ok(())
}

#[tokio::test]
async fn aggregate_can_have_a_uuid() -> TestResult {
    let library = Library::open().await?;
    let (outbox, running) =
        library.start(library.builder().consumer("greetings", in_transaction(greet))).await?;
    let readers = [Uuid::from_u128(7), Uuid::from_u128(8)];
    let mut tx = library.pool.begin().await?;
    for (reader, name) in [(readers[0], "ann"), (readers[1], "ben"), (readers[0], "ann moved")] {
        outbox.enqueue(&mut tx, ReaderJoined { reader, name: name.to_owned() }).await?;
    }
    tx.commit().await?;
    library.consumed("SUCCESS", 3).await?;
    running.stop(STOP_LIMIT).await?;
    let of_first =
        library.notes().await?.into_iter().filter(|note| note.starts_with(&readers[0].to_string()));
    assert_eq!(
        of_first.collect::<Vec<_>>(),
        [format!("{} ann", readers[0]), format!("{} ann moved", readers[0])]
    );
    Ok(())
}

#[tokio::test]
async fn text_key_is_refused_until_the_last_relay_of_an_older_version_has_ended() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().event::<ReaderJoined>().event::<BookLent>().build()?;
    outbox.migrate().await?;
    let alive = "INSERT INTO outbox_relays (relay, alive_until) VALUES ('relay-0123456789abcdef', '2999-01-01 00:00:00.000000')";
    sqlx::raw_sql(alive).execute(&library.pool).await?;
    let joined = || ReaderJoined { reader: Uuid::from_u128(7), name: "ann".to_owned() };
    let mut tx = library.pool.begin().await?;
    let refused = outbox.enqueue(&mut tx, joined()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the event has a text key, and the running process of the relay relay-0123456789abcdef is of an older version, which \
         cannot publish it; stop the processes of the older version; nothing was stored"
    );
    outbox.enqueue(&mut tx, BookLent::to("ann")).await?;
    tx.commit().await?;
    let ended = "UPDATE outbox_relays SET alive_until = '2020-01-01 00:00:00.000000'";
    sqlx::raw_sql(ended).execute(&library.pool).await?;
    let mut tx = library.pool.begin().await?;
    outbox.enqueue(&mut tx, joined()).await?;
    tx.commit().await?;
    assert_eq!(library.count("SELECT count(*) FROM outbox_events").await?, 2);
    Ok(())
}

#[derive(Serialize, Deserialize, Event)]
#[event(name = "shelf.moved", aggregate = "shelf")]
struct ShelfMoved {
    #[event(key)]
    shelf: String,
}

#[tokio::test]
async fn text_that_cannot_be_a_key_is_refused() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().event::<ShelfMoved>().build()?;
    outbox.migrate().await?;
    let mut tx = library.pool.begin().await?;
    let refused = outbox.enqueue(&mut tx, ShelfMoved { shelf: " A1".to_owned() }).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the key \"shelf\" of \"shelf.moved\" cannot be the id of an aggregate: must be an integer, or a text of 1 to 255 \
         bytes without control characters and without blanks at its ends"
    );
    outbox.enqueue(&mut tx, ShelfMoved { shelf: "A1".to_owned() }).await?;
    tx.commit().await?;
    let key: String =
        sqlx::query_scalar("SELECT aggregate_key FROM outbox_events").fetch_one(&library.pool).await?;
    assert_eq!(key, "A1");
    Ok(())
}

/// An event whose key serde writes differently from the id of the aggregate.
#[derive(Serialize, Deserialize, Event)]
#[event(name = "reader.left", aggregate = "reader")]
struct ReaderLeft {
    #[event(key)]
    #[serde(with = "uuid::serde::simple")]
    reader: Uuid,
}

/// An event whose key has a name in JSON that is no name in Rust.
#[derive(Serialize, Deserialize, Event)]
#[serde(rename_all = "kebab-case")]
#[event(name = "reader.moved", aggregate = "reader")]
struct ReaderMoved {
    #[event(key)]
    #[serde(with = "uuid::serde::simple")]
    library_reader: Uuid,
}

#[tokio::test]
async fn payload_that_contradicts_the_key_is_refused_and_the_transaction_stays_usable() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().event::<ReaderLeft>().event::<ReaderMoved>().event::<BookLent>();
    let outbox = builder.build()?;
    outbox.migrate().await?;
    let mut tx = library.pool.begin().await?;
    let refused = outbox.enqueue(&mut tx, ReaderLeft { reader: Uuid::from_u128(7) }).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the payload of \"reader.left\" contradicts its key: aggregate_id is 00000000-0000-0000-0000-000000000007, but the \
         payload's reader is \"00000000000000000000000000000007\"; no consumer could apply the event; let serde write the \
         key as it is: an integer as a number, a text unchanged, a UUID in lower case with hyphens"
    );
    let moved = ReaderMoved { library_reader: Uuid::from_u128(7) };
    let refused = outbox.enqueue(&mut tx, moved).await.unwrap_err();
    assert!(refused.to_string().contains("the payload's library-reader is"), "{refused}");
    outbox.enqueue(&mut tx, BookLent::to("ann")).await?;
    tx.commit().await?;
    assert_eq!(library.count("SELECT count(*) FROM outbox_events").await?, 1);
    Ok(())
}
