//! What `build` refuses, and the report.

use std::time::Duration;

use handover::{
    BuildError, Data, EnqueueError, Event, Outbox, RabbitMq, RetryPolicy, Role, at_least_once, in_transaction,
};
use serde::{Deserialize, Serialize};
use sqlx::{SqliteConnection, SqlitePool};

use crate::library::{BookLent, Library, TestResult};

struct Mailer;

async fn remind(_: Event<BookLent>, _: &mut SqliteConnection) -> handover::Result {
    Ok(())
}

async fn mail(_: Event<BookLent>, _: Data<Mailer>) -> handover::Result {
    Ok(())
}

/// Another type with the name of [`BookLent`].
#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.lent", aggregate = "shelf")]
struct OtherBookLent {
    #[event(key)]
    shelf: i64,
}

/// Another event about the aggregate of [`BookLent`].
#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.scanned", aggregate = "book")]
struct BookScanned {
    #[event(key)]
    book: i64,
}

fn refusal<T>(built: Result<T, BuildError>) -> String {
    built.map_or_else(|error| error.to_string(), |_| "not refused".to_owned())
}

#[tokio::test]
async fn two_consumers_of_one_name_are_refused() -> TestResult {
    let library = Library::open().await?;
    let builder =
        library.builder().consumer("a", in_transaction(remind)).consumer("a", in_transaction(remind));
    assert_eq!(
        refusal(builder.build()),
        "two consumers are named \"a\": the name identifies the record of what a consumer has applied; give each consumer \
         a name of its own, or put both functions into one consumer with `.and(..)`"
    );
    Ok(())
}

#[tokio::test]
async fn two_functions_for_one_event_type_are_refused() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().consumer("a", in_transaction(remind).and(remind));
    assert_eq!(
        refusal(builder.build()),
        "consumer \"a\" has two functions for the event type \"book.lent\": each event is applied by one function; call \
         both from one function, or add a second consumer"
    );
    Ok(())
}

#[tokio::test]
async fn missing_data_is_refused() -> TestResult {
    let library = Library::open().await?;
    assert_eq!(
        refusal(library.builder().consumer("mail", at_least_once(mail)).build()),
        "a function of consumer \"mail\" takes Data<facade::build::Mailer>, and no such value was given; add `.data(..)` \
         with a value of this type to the builder"
    );
    let builder = library.builder().data(Mailer).consumer("mail", at_least_once(mail));
    assert_eq!(refusal(builder.build()), "not refused");
    Ok(())
}

#[tokio::test]
async fn two_types_of_one_event_name_are_refused() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().event::<OtherBookLent>().consumer("a", in_transaction(remind));
    assert_eq!(
        refusal(builder.build()),
        "the event name \"book.lent\" belongs to two types, facade::build::OtherBookLent and facade::library::BookLent: a \
         name stands for one definition of payload, key and routing key; rename one of them in `#[event(name = \"..\")]`, \
         or use one type for both"
    );
    let builder = library.builder().event::<BookLent>().consumer("a", in_transaction(remind));
    assert_eq!(refusal(builder.build()), "not refused");
    Ok(())
}

#[tokio::test]
async fn invalid_retry_policy_is_refused() -> TestResult {
    let library = Library::open().await?;
    let policy = RetryPolicy::Schedule { delays: vec![Duration::ZERO] };
    let refused = refusal(library.builder().consumer("a", in_transaction(remind).retry(policy)).build());
    assert!(refused.starts_with("the retry policy of consumer \"a\" is invalid: "), "{refused}");
    Ok(())
}

#[tokio::test]
async fn time_limit_in_which_no_attempt_could_end_is_refused() -> TestResult {
    let library = Library::open().await?;
    let with = |limit| library.builder().consumer("a", in_transaction(remind).timeout(limit)).build();
    assert_eq!(
        refusal(with(Duration::ZERO)),
        "the time limit for an attempt of consumer \"a\" is 0ns: it must be longer than zero and at most a day; change \
         `.timeout(..)`, or leave it out: the default is 10 s"
    );
    let day = Duration::from_secs(24 * 60 * 60);
    assert!(refusal(with(Duration::MAX)).contains("at most a day"));
    assert_eq!(refusal(with(day)), "not refused");
    Ok(())
}

#[tokio::test]
async fn name_that_cannot_be_stored_is_refused() -> TestResult {
    let library = Library::open().await?;
    assert_eq!(
        refusal(library.builder().consumer("send mail", in_transaction(remind)).build()),
        "the name of a consumer is \"send mail\": a name has 1 to 64 visible ASCII characters, without spaces"
    );
    assert_eq!(
        refusal(library.builder().name("").build()),
        "the name of the service is \"\": a name has 1 to 64 visible ASCII characters, without spaces"
    );
    Ok(())
}

#[tokio::test]
async fn database_in_memory_is_refused() -> TestResult {
    let pool = SqlitePool::connect("sqlite::memory:").await?;
    assert_eq!(
        refusal(Outbox::builder(pool).build()),
        "the SQLite database is in memory: relay and consumers use connections of their own, and each of them would open \
         another database; use a file, in tests a temporary one"
    );
    Ok(())
}

fn rabbit() -> Result<RabbitMq, BuildError> {
    RabbitMq::new("amqp://library:secret@localhost:1/library")
}

#[tokio::test]
async fn receiving_from_another_service_needs_a_broker() -> TestResult {
    let library = Library::open().await?;
    let with = || library.builder().consumer("a", in_transaction(remind).from("branch.events"));
    assert_eq!(
        refusal(with().build()),
        "consumer \"a\" receives from the exchange \"branch.events\", and the outbox has no broker: its messages are rows of its \
         own database, where no other service publishes; add `.broker(RabbitMq::new(url)?)` to the builder, or leave out \
         `.from(..)` if this service enqueues the events"
    );
    assert_eq!(refusal(with().broker(rabbit()?).build()), "not refused");
    Ok(())
}

#[tokio::test]
async fn receiving_from_own_exchange_is_refused() -> TestResult {
    let library = Library::open().await?;
    let own =
        library.builder().broker(rabbit()?).consumer("a", in_transaction(remind).from("library.events"));
    assert_eq!(
        refusal(own.build()),
        "consumer \"a\" receives from the exchange \"library.events\", which is that of this service: its own events reach its \
         consumers anyway; leave out `.from(..)`, or name the exchange of the other service"
    );
    let nowhere = library.builder().broker(rabbit()?).consumer("a", in_transaction(remind).from(""));
    assert_eq!(
        refusal(nowhere.build()),
        "consumer \"a\" receives from the exchange \"\": the name of an exchange has 1 to 255 bytes; that of a service with this \
         crate is its name and `.events`"
    );
    Ok(())
}

#[tokio::test]
async fn selective_consumer_of_events_of_another_service_is_refused() -> TestResult {
    let library = Library::open().await?;
    let consumer = in_transaction(remind).selective().from("branch.events");
    assert_eq!(
        refusal(library.builder().broker(rabbit()?).consumer("a", consumer).build()),
        "consumer \"a\" is selective and receives from the exchange \"branch.events\": a service can exclude only its own consumers \
         from an event; leave out `.selective()`, and return without an effect for events that mean no work"
    );
    Ok(())
}

#[tokio::test]
async fn aggregate_type_of_two_services_is_refused() -> TestResult {
    let library = Library::open().await?;
    let with = || -> Result<_, BuildError> {
        let consumer = in_transaction(remind).from("branch.events");
        Ok(library.builder().data(Mailer).broker(rabbit()?).consumer("a", consumer))
    };
    let expected = |first: &str, second: &str| {
        format!(
            "the event types \"book.lent\" of {first} and \"book.lent\" of {second} are both about \"book\": each service numbers the \
             events of an aggregate on its own, so there is no common order; use another aggregate type in one of them, or \
             receive both from the service that publishes them"
        )
    };
    let branch = "exchange \"branch.events\"";
    assert_eq!(refusal(with()?.event::<BookLent>().build()), expected("this service", branch));
    assert_eq!(
        refusal(with()?.consumer("mail", at_least_once(mail)).build()),
        expected(branch, "this service")
    );
    let other = at_least_once(mail).from("shop.events");
    assert_eq!(
        refusal(with()?.consumer("mail", other).build()),
        expected(branch, "exchange \"shop.events\"")
    );
    let same = at_least_once(mail).from("branch.events");
    assert_eq!(refusal(with()?.consumer("mail", same).build()), "not refused");
    Ok(())
}

/// The events of another service are neither published nor enqueued by this one.
#[tokio::test]
async fn report_names_the_exchange_from_which_a_consumer_receives() -> TestResult {
    let library = Library::open().await?;
    let consumer = in_transaction(remind).from("branch.events");
    let outbox = library
        .builder()
        .broker(rabbit()?)
        .roles([Role::Consumers])
        .consumer("reminders", consumer)
        .build()?;
    assert_eq!(
        outbox.report().to_string(),
        "outbox library: broker: RabbitMQ; roles: consumers; events: none; consumers: reminders (exactly once, from branch.events: \
         book.lent)"
    );
    let mut tx = library.pool.begin().await?;
    let refused = outbox.enqueue(&mut tx, BookLent::to("ann")).await;
    assert!(matches!(refused, Err(EnqueueError::Received { event: "book.lent", .. })), "{refused:?}");
    Ok(())
}

/// `build` would refuse both types with `.event::<..>()`.
#[tokio::test]
async fn enqueue_of_an_event_about_an_aggregate_of_another_service_names_its_exchange() -> TestResult {
    let library = Library::open().await?;
    let consumer = in_transaction(remind).from("branch.events");
    let outbox = library.builder().broker(rabbit()?).consumer("reminders", consumer).build()?;
    let mut tx = library.pool.begin().await?;
    let expected = |event: &str| {
        format!(
            "the event {event:?} is about \"book\", whose events this service receives from the exchange \"branch.events\": they have \
             one order only if one service numbers them; enqueue it in the service that publishes to this exchange, or give it another \
             aggregate type"
        )
    };
    let refused = outbox.enqueue(&mut tx, BookLent::to("ann")).await.unwrap_err();
    assert_eq!(refused.to_string(), expected("book.lent"));
    let refused = outbox.enqueue(&mut tx, BookScanned { book: 1 }).await.unwrap_err();
    assert_eq!(refused.to_string(), expected("book.scanned"));
    Ok(())
}

#[tokio::test]
async fn report_lists_types_consumers_and_guarantees() -> TestResult {
    let library = Library::open().await?;
    let builder = library
        .builder()
        .data(Mailer)
        .consumer("reminders", in_transaction(remind))
        .consumer("mail", at_least_once(mail).selective());
    assert_eq!(
        builder.build()?.report().to_string(),
        "outbox library: broker: tables of the database; roles: relay, consumers; events: book.lent (in order); \
         consumers: reminders (exactly once: book.lent), mail (at least once, selective: book.lent)"
    );
    assert_eq!(
        library.builder().roles([Role::Relay]).build()?.report().to_string(),
        "outbox library: broker: tables of the database; roles: relay; events: none; consumers: none"
    );
    Ok(())
}
