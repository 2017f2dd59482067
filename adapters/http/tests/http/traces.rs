//! Trace ids, in and out.

use marketplace::Role;
use serde_json::json;

use crate::world::{BUYER, STRANGER, World};

pub(crate) const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test(start_paused = true)]
async fn a_good_trace_id_is_kept_and_any_other_is_replaced() {
    let world = World::new().await;
    let longest = "x".repeat(64);
    for good in ["a", "A_b-9", longest.as_str()] {
        assert_eq!(world.get("/healthz").header("x-trace-id", good).send().await.trace_id, good);
    }
    let too_long = "x".repeat(65);
    for bad in ["", "a b", "a\"b", "a.b", too_long.as_str()] {
        let made = world.get("/healthz").header("x-trace-id", bad).send().await.trace_id;
        assert!(made.len() == 32 && made.bytes().all(|b| b.is_ascii_hexdigit()), "{bad}: {made}");
    }
    let two = (world.get("/healthz").send().await, world.get("/healthz").send().await);
    assert_ne!(two.0.trace_id, two.1.trace_id);
}

#[tokio::test(start_paused = true)]
async fn a_traceparent_alone_gives_its_trace_id() {
    let world = World::new().await;
    let from_parent = world.get("/healthz").header("traceparent", PARENT).send().await;
    assert_eq!(from_parent.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
    let both = world.get("/healthz").header("traceparent", PARENT).header("x-trace-id", "mine").send().await;
    assert_eq!(both.trace_id, "mine");
    let broken = world.get("/healthz").header("traceparent", &PARENT[..54]).send().await;
    assert_ne!(broken.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
}

#[tokio::test(start_paused = true)]
async fn a_traceparent_is_taken_only_when_every_field_is_well_formed() {
    let world = World::new().await;
    let answered = async |given: &str| {
        let answer = world.get("/healthz").header("traceparent", given).send().await;
        let parent = answer.header("traceparent").unwrap();
        (parent[..36].to_owned(), parent[52..].to_owned())
    };
    let taken = (PARENT[..36].to_owned(), PARENT[52..].to_owned());
    for given in [PARENT.to_owned(), format!("cc{}-more", &PARENT[2..])] {
        assert_eq!(answered(&given).await, taken, "{given}");
    }
    let no_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
    let bad = [
        String::new(),
        PARENT[..54].to_owned(),
        format!("{PARENT}-more"),
        PARENT.to_uppercase(),
        PARENT.replace("00-4", "ff-4"),
        no_trace.clone(),
        format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16)),
        PARENT.replace('-', "_"),
        "é".repeat(55),
    ];
    for given in bad {
        let (trace, _) = answered(&given).await;
        assert!(trace != taken.0 && trace != no_trace[..36], "{given}: {trace}");
    }
}

/// Whoever comes without a `traceparent` is given one, and told which; those of one trace id are in one W3C trace.
#[tokio::test(start_paused = true)]
async fn every_answer_tells_its_traceparent() {
    let world = World::new().await;
    let given = world.get("/healthz").header("traceparent", PARENT).send().await;
    assert_eq!(given.header("traceparent").unwrap()[..36], PARENT[..36]);
    let mut traces = Vec::new();
    for id in ["4bf92f3577b34da6a3ce929d0e0e4736", "order-7", "order-7", "order-8", &"0".repeat(32)] {
        let answer = world.get("/none").header("x-trace-id", id).send().await;
        let parent = answer.header("traceparent").unwrap().to_owned();
        let again = world.get("/healthz").header("traceparent", &parent).send().await;
        assert_eq!(again.header("traceparent").unwrap()[..36], parent[..36], "it is well formed");
        traces.push(parent[3..35].to_owned());
    }
    assert_eq!(traces[0], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(traces[1], traces[2]);
    assert_eq!(traces.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{traces:?}");
    let made = world.get("/healthz").send().await;
    assert_eq!(&made.header("traceparent").unwrap()[3..35], made.trace_id);
}

#[tokio::test(start_paused = true)]
async fn the_trace_goes_into_the_events_of_the_command() {
    let world = World::new().await;
    let body = json!({ "productId": world.product().await }).to_string();
    let request =
        world.post_as(BUYER, "/api/v1/orders").header("traceparent", PARENT).header("x-trace-id", "t-7");
    request.json(body).send().await.expect(201, "00000");
    let rows = world
        .app
        .view()
        .await
        .unwrap()
        .outbox_view()
        .outbox_page(&Default::default(), None, 10)
        .await
        .unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row.metadata.trace_id.as_deref(), Some("t-7"));
        // The request is a span of its own in the client's trace.
        let parent = row.metadata.traceparent.unwrap();
        assert_eq!((&parent[..35], &parent[52..]), (&PARENT[..35], &PARENT[52..]));
        assert_ne!(parent[36..52], PARENT[36..52]);
        assert_eq!(row.metadata.user_id, Some(BUYER));
    }
    let operator = world.token(STRANGER, 1, &[Role::Operator]);
    let page = world.get("/api/v1/ops/outbox").token(&operator).send().await;
    assert_eq!(page.data["items"][0]["traceId"], "t-7");
}
