//! What `build` refuses of names and routing keys that would bring events into a queue where nobody applies them.

use handover::{BuildError, Event, EventType, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

use crate::library::{BookLent, Library, TestResult};

/// Declares event types of the aggregate type `book`.
macro_rules! events {
    ($($type:ident($($attribute:tt)+);)+) => {$(
        #[derive(Serialize, Deserialize, Event)]
        #[event($($attribute)+)]
        struct $type {
            #[event(key)]
            book: i64,
        }
    )+};
}

events! {
    LongAggregate(name = "book.moved", aggregate = "a123456789a123456789a123456789a123456789a123456789a123456789a1234");
    LongName(name = "n123456789n123456789n123456789n123456789n123456789n123456789n1234", aggregate = "book");
    AnyWord(name = "book.any", aggregate = "book", routing_key = "book.*");
    AnyWords(name = "book.all", aggregate = "book", routing_key = "#");
    Blank(name = "book.blank", aggregate = "book", routing_key = "book lent");
    Empty(name = "book.empty", aggregate = "book", routing_key = "");
    Star(name = "book.star", aggregate = "book", routing_key = "book.a*b");
    Dead(name = "library.dead", aggregate = "book");
    Reserved(name = "book.reserved", aggregate = "book", routing_key = "book.lent");
    Returned(name = "book.returned", aggregate = "book");
}

/// An event type whose routing key has `LENGTH` characters.
macro_rules! with_length {
    ($type:ident, $length:literal) => {
        #[derive(Serialize, Deserialize)]
        struct $type;

        impl handover::Keyed for $type {
            const KEY_FIELD: &'static str = "book";
            type Key = i64;

            fn key(&self) -> &i64 {
                &1
            }
        }

        impl EventType for $type {
            const NAME: &'static str = stringify!($type);
            const AGGREGATE: &'static str = "book";
            const ROUTING_KEY: &'static str = match std::str::from_utf8(&[b'k'; $length]) {
                Ok(key) => key,
                Err(_) => "",
            };
            const IS_ORDERED: bool = true;
            const SUMMARY: &'static str = "";

            fn visible_fields() -> Vec<&'static str> {
                Vec::new()
            }
        }
    };
}
with_length!(LongestKey, 255);
with_length!(TooLongKey, 256);

/// The error of `build` for an outbox that declares this event type.
async fn refused<E: EventType>() -> Result<String, Box<dyn std::error::Error>> {
    Ok(refusal(Library::open().await?.builder().event::<E>().build()))
}

fn refusal<T>(built: Result<T, BuildError>) -> String {
    built.map_or_else(|error| error.to_string(), |_| "not refused".to_owned())
}

#[tokio::test]
async fn name_that_no_column_can_hold_is_refused() -> TestResult {
    let rule = "a name has 1 to 64 visible ASCII characters, without spaces";
    for (of, refused) in [
        ("an aggregate type", refused::<LongAggregate>().await?),
        ("an event type", refused::<LongName>().await?),
    ] {
        assert!(
            refused.starts_with(&format!("the name of {of} is ")) && refused.ends_with(rule),
            "{refused}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn routing_key_that_no_column_can_hold_or_that_is_a_pattern_is_refused() -> TestResult {
    assert_eq!(
        refused::<AnyWord>().await?,
        "the routing key of the event type \"book.any\" is \"book.*\": a routing key has 1 to 255 visible ASCII \
         characters, without spaces, and none of its words between dots is `*` or `#`, which match other keys; set \
         another one in `#[event(routing_key = \"..\")]`"
    );
    for refused in [
        refused::<AnyWords>().await?,
        refused::<Blank>().await?,
        refused::<Empty>().await?,
        refused::<TooLongKey>().await?,
    ] {
        assert!(refused.contains("a routing key has 1 to 255 visible"), "{refused}");
    }
    assert_eq!(refused::<Star>().await?, "not refused");
    assert_eq!(refused::<LongestKey>().await?, "not refused");
    Ok(())
}

#[tokio::test]
async fn routing_key_of_dead_letters_is_refused() -> TestResult {
    assert_eq!(
        refused::<Dead>().await?,
        "the routing key of the event type \"library.dead\" is \"library.dead\", which is that of the dead letters of this \
         service: the event would become one; set another one in `#[event(routing_key = \"..\")]`, or rename the service"
    );
    let library = Library::open().await?;
    assert_eq!(refusal(library.builder().name("archive").event::<Dead>().build()), "not refused");
    Ok(())
}

async fn lent(_: Event<BookLent>, _: &mut SqliteConnection) -> handover::Result {
    Ok(())
}

async fn reserved(_: Event<Reserved>, _: &mut SqliteConnection) -> handover::Result {
    Ok(())
}

async fn returned(_: Event<Returned>, _: &mut SqliteConnection) -> handover::Result {
    Ok(())
}

#[tokio::test]
async fn consumer_that_would_receive_a_type_without_a_function_is_refused() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().event::<Reserved>().consumer("desk", in_transaction(returned).and(lent));
    assert_eq!(
        refusal(builder.build()),
        "the event types \"book.lent\" and \"book.reserved\" have the same routing key, \"book.lent\", and consumer \"desk\" \
         has a function for \"book.lent\" only: it would receive each \"book.reserved\" and record it as a dead letter; \
         give the types different routing keys, or add a function for \"book.reserved\" with `.and(..)`"
    );
    let builder = library.builder().consumer("desk", in_transaction(lent).and(reserved));
    assert_eq!(refusal(builder.build()), "not refused");
    let builder = library.builder().event::<Reserved>().consumer("desk", in_transaction(returned));
    assert_eq!(refusal(builder.event::<BookLent>().build()), "not refused");
    Ok(())
}

#[tokio::test]
async fn consumer_with_the_name_of_the_queue_of_dead_letters_is_refused() -> TestResult {
    let library = Library::open().await?;
    assert_eq!(
        refusal(library.builder().consumer("dead-letters", in_transaction(lent)).build()),
        "a consumer is named \"dead-letters\": its queue would be that of the dead letters of all consumers; give the \
         consumer another name"
    );
    Ok(())
}
