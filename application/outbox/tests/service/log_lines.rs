//! Log lines about events, summaries, and outages of the broker.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_memory::MemoryUnit;
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::{EventSpan, runtime};
use tracing::info_span;

use crate::library::{Library, QUEUE, eventually};
use crate::{lent, loans, log, noted};

/// Fields of every line about the event `id` of book 7.
fn assert_about(line: &str, id: &str) {
    let request = format!("requestId=\"request-{id}\"");
    for part in [&format!("eventId={id}"), "traceId=\"trace-1\"", &request, "aggregateId=7", "reader=3 "] {
        assert!(line.contains(part), "{part} is missing: {line}");
    }
}

/// An event of book 7 with trace and request.
fn traced(library: &Library, id: &str, seq: i64, payload: &str) -> NewEvent {
    let metadata = EventMetadata {
        trace_id: Some("trace-1".to_owned()),
        request_id: Some(format!("request-{id}")),
        ..EventMetadata::default()
    };
    NewEvent { metadata, ..library.event(id, "BOOK_LENT", 7, seq, payload) }
}

/// The span of lines about loans: it has the field `reader` of the payload.
fn loan_span() -> EventSpan {
    EventSpan::OfPayload(|_, payload| {
        info_span!("loan", reader = payload.get("reader").and_then(handover_events::Json::as_i64))
    })
}

fn lent_with_reader() -> handover_outbox::EventSpec {
    lent().logged_in_span(loan_span())
}

#[tokio::test(start_paused = true)]
async fn every_line_about_an_event_has_its_ids_and_a_code() {
    let library = Library::sending([lent_with_reader(), noted()]).with(&loans()).started().await;
    let events = vec![traced(&library, "e-1", 1, r#"{"reader":3}"#)];
    let appended = handover_outbox::with_tx(&library.tx, events, |unit, events, _| {
        Box::pin(async move {
            handover_outbox::append_logged_in(unit.outbox(), events, |_| Some(loan_span())).await
        })
    });
    appended.await.unwrap();
    eventually(async || library.ids("LOAN_NOTED").await == ["e-1-noted-1"] && library.is_quiet().await).await;
    library.redrive("e-1").await;
    eventually(async || !log::with("consumer.event.duplicate").is_empty()).await;
    let redriven = 2;
    for (code, text, consumer, count) in [
        ("outbox.event.appended", "[Outbox] Event appended", "", 1),
        ("outbox.event.sent", "[OutboxRelay] Event sent successfully", "", redriven),
        ("consumer.event.applied", "[loans] Message consumed successfully", "consumer=\"loans\"", 1),
        ("consumer.event.duplicate", "duplicate message ignored", "consumer=\"loans\"", 1),
    ] {
        let lines = log::with(&format!("code=\"{code}\""));
        let lines: Vec<&String> = lines.iter().filter(|line| line.contains("eventId=e-1 ")).collect();
        assert_eq!(lines.len(), count, "{code}: {:#?}", log::lines());
        for line in lines {
            assert_about(line, "e-1");
            let queue = if consumer.is_empty() { String::new() } else { format!("queue=\"{QUEUE}\"") };
            for part in [text, consumer, &queue, "level=INFO", "target=handover::event"] {
                assert!(line.contains(part), "{part} is missing: {line}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn event_that_is_rolled_back_is_not_logged_as_appended() {
    let library = Library::sending([lent()]);
    let events = vec![traced(&library, "e-1", 1, "{}")];
    let undone = handover_outbox::with_tx(&library.tx, events, |unit, events, _| {
        Box::pin(async move {
            handover_outbox::append(unit.outbox(), events).await?;
            Err::<(), _>(StoreError::Backend("the caller gives up".into()))
        })
    });
    undone.await.unwrap_err();
    assert_eq!(log::with("outbox.event.appended"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn line_about_a_dead_event_has_its_ids_and_is_no_success_line() {
    struct Refusing;

    #[async_trait]
    impl Handler<MemoryUnit> for Refusing {
        fn name(&self) -> &str {
            "loans"
        }

        fn event_types(&self) -> Vec<&str> {
            vec!["BOOK_LENT"]
        }

        async fn apply(&self, _: &mut MemoryUnit, _: &[Event]) -> Result<Vec<Applied>, HandlerError> {
            Err(HandlerError::Unrecoverable("no such reader".to_owned()))
        }
    }

    let subscriber = Subscriber::new(QUEUE, Arc::new(Refusing));
    let library = Library::sending([lent_with_reader()]).with(&subscriber).started().await;
    library.commit(vec![traced(&library, "e-1", 1, r#"{"reader":3}"#)]).await;
    eventually(async || library.dead_letters().await.len() == 1).await;
    let lines = log::with("[loans] [ALERT] Event is dead");
    let [line] = &lines[..] else { panic!("{lines:#?}") };
    assert_about(line, "e-1");
    let queue = format!("queue=\"{QUEUE}\"");
    for part in ["code=\"consumer.event.dead\"", &queue, "consumer=\"loans\"", "no such reader"] {
        assert!(line.contains(part), "{part} is missing: {line}");
    }
    assert!(!line.contains("handover::event"), "a filter of success lines must not hide it: {line}");
}

#[tokio::test(start_paused = true)]
async fn line_about_a_failed_publish_has_a_code_and_the_cause() {
    let library = Library::sending([lent_with_reader()]);
    library.prepare().await;
    // Nothing is bound to the routing key.
    library.commit(vec![traced(&library, "e-1", 1, r#"{"reader":3}"#)]).await;
    library.start_relay();
    eventually(async || !log::with("Event marked as FAILED").is_empty()).await;
    let lines = log::with("[OutboxRelay] [ALERT] Event marked as FAILED");
    let [line] = &lines[..] else { panic!("{lines:#?}") };
    assert_about(line, "e-1");
    for part in ["code=\"outbox.event.failed\"", "errorCode=\"returned\"", "cause=\"", "level=ERROR"] {
        assert!(line.contains(part), "{part} is missing: {line}");
    }
}

/// The lines about the outage: their codes and numbers.
fn outage_lines() -> Vec<(String, u64, u64)> {
    let number = |line: &str, name: &str| {
        let rest = line.split(&format!("{name}=")).nth(1)?;
        rest.split(' ').next()?.parse().ok()
    };
    let code = |line: &str| line.split('"').nth(1).unwrap().to_owned();
    let lines = log::with("code=\"broker.outage.");
    lines
        .iter()
        .map(|line| {
            (code(line), number(line, "seconds").unwrap_or(0), number(line, "published").unwrap_or(0))
        })
        .collect()
}

#[allow(clippy::disallowed_methods, reason = "the runtime's clock is paused: no real waiting")]
async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn outage_has_a_line_at_its_begin_every_minute_and_at_its_end() {
    let library = Library::sending([lent(), noted()]).with(&loans()).started().await;
    library.broker.set_reachable(false);
    let before = log::lines().len();
    // More than a window of the relay.
    let lent = |n: i64| library.event(&format!("e-{n}"), "BOOK_LENT", n, 1, r#"{"reader":3}"#);
    library.commit((1..=300).map(lent).collect()).await;
    pass(150).await;
    let codes: Vec<String> = outage_lines().into_iter().map(|(code, ..)| code).collect();
    assert_eq!(codes, ["broker.outage.begins", "broker.outage.lasts", "broker.outage.lasts"]);
    let shown = |line: &&String| line.contains("level=WARN") || line.contains("level=ERROR");
    let lines: Vec<String> = log::lines().split_off(before);
    let lines: Vec<&String> = lines.iter().filter(shown).collect();
    assert_eq!(lines.len(), 3, "no other line is about the outage: {lines:#?}");
    library.broker.set_reachable(true);
    eventually(async || outage_lines().last().is_some_and(|(code, ..)| code == "broker.outage.ends")).await;
    let (_, seconds, published) = outage_lines().pop().unwrap();
    assert!((150..=160).contains(&seconds), "{seconds} s");
    assert_eq!(published, 300);
    assert_eq!(outage_lines().len(), 4, "{:#?}", outage_lines());
    assert_eq!(log::with("Event sent successfully").iter().filter(|line| line.contains("=e-")).count(), 300);
}

/// Nothing is to be published: the consumers notice the outage, and its end.
#[tokio::test(start_paused = true)]
async fn outage_that_only_consumers_notice_ends_when_one_of_them_has_subscribed() {
    let library = Library::sending([lent(), noted()]).with(&loans()).started().await;
    pass(1).await;
    library.broker.set_reachable(false);
    library.broker.disconnect();
    pass(30).await;
    let codes = || outage_lines().into_iter().map(|(code, ..)| code).collect::<Vec<_>>();
    assert_eq!(codes(), ["broker.outage.begins"]);
    library.broker.set_reachable(true);
    eventually(async || codes() == ["broker.outage.begins", "broker.outage.ends"]).await;
    let (_, seconds, published) = outage_lines().pop().unwrap();
    assert!((29..=35).contains(&seconds), "{seconds} s");
    assert_eq!(published, 0);
}

#[tokio::test(start_paused = true)]
async fn block_of_the_broker_ends_when_it_accepts_messages_although_nothing_is_due() {
    let library = Library::sending([lent(), noted()]).with(&loans()).started().await;
    pass(1).await;
    library.broker.set_blocked(Some("low on disk"));
    pass(30).await;
    library.broker.set_blocked(None);
    pass(10).await;
    let codes: Vec<String> = outage_lines().into_iter().map(|(code, ..)| code).collect();
    assert_eq!(codes, ["broker.outage.begins", "broker.outage.ends"], "{:#?}", log::lines());
    assert!(log::with("broker.outage.begins")[0].contains("low on disk"));
}

/// Fails at the first attempt for book 1 and at every attempt for book 2.
struct Failing(std::sync::atomic::AtomicBool);

#[async_trait]
impl Handler<MemoryUnit> for Failing {
    fn name(&self) -> &str {
        "loans"
    }

    fn event_types(&self) -> Vec<&str> {
        vec!["BOOK_LENT"]
    }

    async fn apply(&self, _: &mut MemoryUnit, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        for event in events {
            match event.row.aggregate.id.number() {
                1 if events.len() > 1 || !self.0.swap(true, std::sync::atomic::Ordering::Relaxed) => {
                    return Err(HandlerError::Recoverable("the shelf is locked".to_owned()));
                }
                2 => return Err(HandlerError::Unrecoverable("no such book".to_owned())),
                _ => {}
            }
        }
        Ok(events.iter().map(|_| Applied::result("noted")).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn summary_counts_the_events_of_ten_seconds_and_is_silent_without_any() {
    let subscriber = Subscriber::new(QUEUE, Arc::new(Failing(false.into())));
    let library = Library::sending([lent()]).with(&subscriber).started().await;
    runtime::start_summary(&library.outbox);
    pass(25).await;
    assert_eq!(log::with("[Summary]"), Vec::<String>::new(), "nothing has happened");
    let lent = |n: i64| library.event(&format!("e-{n}"), "BOOK_LENT", n, 1, "{}");
    // The events were created nine seconds before they are committed.
    let created = library.outbox.now() - chrono::TimeDelta::seconds(9);
    let events = (1..=20).map(|n| NewEvent { occurred_at: created, ..lent(n) });
    library.commit(events.collect()).await;
    let sum = |code: &str, field: &str| {
        let lines = log::with(&format!("code=\"{code}\""));
        let number = |line: &String| -> u64 {
            line.split(&format!(" {field}=")).nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
        };
        lines.iter().map(number).sum::<u64>()
    };
    eventually(async || sum("summary.consumer", "applied") == 19 && library.is_quiet().await).await;
    pass(10).await;
    assert_eq!(sum("summary.relay", "published"), 20);
    let of_consumer = ["applied", "retried", "failed"].map(|field| sum("summary.consumer", field));
    assert_eq!(of_consumer[0], 19);
    assert!(of_consumer[1] == 1, "the first attempt at book 1: {:#?}", log::with("[Summary]"));
    assert_eq!(of_consumer[2], 1);
    let first = log::with("code=\"summary.relay\"").remove(0);
    let p99: u64 = first.split("p99Ms=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((9_000..=9_600).contains(&p99), "{first}");
    assert!(log::with("summary.consumer").iter().all(|line| line.contains("consumer=\"loans\"")));
    let count = log::with("[Summary]").len();
    pass(60).await;
    assert_eq!(log::with("[Summary]").len(), count, "nothing has happened since");
    library.commit(vec![library.event("e-last", "BOOK_LENT", 99, 1, "{}")]).await;
    eventually(async || library.is_quiet().await && library.consumed("loans", "e-last").await.is_some())
        .await;
    library.outbox.tasks().begin_stop();
    eventually(async || sum("summary.relay", "published") == 21).await;
}
