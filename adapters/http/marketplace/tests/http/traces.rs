//! Trace ids in requests and responses.

use marketplace::Role;
use serde_json::json;

use crate::world::{BUYER, OTHER_USER, World};

pub(crate) const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test(start_paused = true)]
async fn valid_trace_id_is_used_and_invalid_one_is_replaced() {
    let world = World::new().await;
    let longest = "x".repeat(64);
    for valid in ["a", "A_b-9", longest.as_str()] {
        assert_eq!(world.get("/healthz").header("x-trace-id", valid).send().await.trace_id, valid);
    }
    let too_long = "x".repeat(65);
    for invalid in ["", "a b", "a\"b", "a.b", too_long.as_str()] {
        let generated = world.get("/healthz").header("x-trace-id", invalid).send().await.trace_id;
        assert!(
            generated.len() == 32 && generated.bytes().all(|b| b.is_ascii_hexdigit()),
            "{invalid}: {generated}"
        );
    }
    let first = world.get("/healthz").send().await;
    let second = world.get("/healthz").send().await;
    assert_ne!(first.trace_id, second.trace_id);
}

#[tokio::test(start_paused = true)]
async fn valid_request_id_is_echoed_and_invalid_one_is_replaced() {
    let world = World::new().await;
    let echoed = async |path: &str, given: &[&str]| {
        let request = given.iter().fold(world.get(path), |request, id| request.header("x-request-id", id));
        request.send().await.header("x-request-id").unwrap().to_owned()
    };
    let longest = "x".repeat(64);
    for valid in ["a", "A_b-9", longest.as_str()] {
        assert_eq!(echoed("/healthz", &[valid]).await, valid);
        assert_eq!(echoed("/none", &[valid]).await, valid, "a refused request keeps its id");
    }
    let too_long = "x".repeat(65);
    let mut generated = std::collections::BTreeSet::new();
    for given in [&[][..], &[""], &["a b"], &["a\"b"], &["a.b"], &[too_long.as_str()], &["one", "two"]] {
        let id = echoed("/healthz", given).await;
        assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{given:?}: {id}");
        assert!(generated.insert(id), "{given:?}");
    }
    let response = world.get("/healthz").header("x-request-id", "r-1").send().await;
    assert_ne!(response.trace_id, "r-1", "the request id is not the trace id");
}

#[tokio::test(start_paused = true)]
async fn traceparent_provides_the_trace_id() {
    let world = World::new().await;
    let from_parent = world.get("/healthz").header("traceparent", PARENT).send().await;
    assert_eq!(from_parent.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
    let both = world.get("/healthz").header("traceparent", PARENT).header("x-trace-id", "mine").send().await;
    assert_eq!(both.trace_id, "mine");
    let broken = world.get("/healthz").header("traceparent", &PARENT[..54]).send().await;
    assert_ne!(broken.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
}

#[tokio::test(start_paused = true)]
async fn malformed_traceparent_is_ignored() {
    let world = World::new().await;
    let response_parent = async |given: &str| {
        let response = world.get("/healthz").header("traceparent", given).send().await;
        let parent = response.header("traceparent").unwrap();
        (parent[..36].to_owned(), parent[52..].to_owned())
    };
    let accepted = (PARENT[..36].to_owned(), PARENT[52..].to_owned());
    for given in [PARENT.to_owned(), format!("cc{}-more", &PARENT[2..])] {
        assert_eq!(response_parent(&given).await, accepted, "{given}");
    }
    let no_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
    let malformed = [
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
    for given in malformed {
        let (trace, _) = response_parent(&given).await;
        assert!(trace != accepted.0 && trace != no_trace[..36], "{given}: {trace}");
    }
}

/// A request without a `traceparent` gets one in its response; requests with the same trace id share one W3C trace.
#[tokio::test(start_paused = true)]
async fn every_response_has_a_traceparent() {
    let world = World::new().await;
    let given = world.get("/healthz").header("traceparent", PARENT).send().await;
    assert_eq!(given.header("traceparent").unwrap()[..36], PARENT[..36]);
    let mut traces = Vec::new();
    for id in ["4bf92f3577b34da6a3ce929d0e0e4736", "order-7", "order-7", "order-8", &"0".repeat(32)] {
        let response = world.get("/none").header("x-trace-id", id).send().await;
        let parent = response.header("traceparent").unwrap().to_owned();
        let again = world.get("/healthz").header("traceparent", &parent).send().await;
        assert_eq!(
            again.header("traceparent").unwrap()[..36],
            parent[..36],
            "the traceparent of a response is accepted in a request"
        );
        traces.push(parent[3..35].to_owned());
    }
    assert_eq!(traces[0], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(traces[1], traces[2]);
    assert_eq!(traces.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{traces:?}");
    let generated = world.get("/healthz").send().await;
    assert_eq!(&generated.header("traceparent").unwrap()[3..35], generated.trace_id);
}

#[tokio::test(start_paused = true)]
async fn events_of_a_command_carry_the_trace() {
    let world = World::new().await;
    let body = json!({ "productId": world.product().await }).to_string();
    let request =
        world.post_as(BUYER, "/api/v1/orders").header("traceparent", PARENT).header("x-trace-id", "t-7");
    let request = request.header("x-request-id", "r-7");
    request.json(body).send().await.expect(201, "00000");
    let rows = world
        .app
        .tx
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
        assert_eq!(row.metadata.request_id.as_deref(), Some("r-7"));
        // The request has its own span in the client's trace.
        let parent = row.metadata.traceparent.unwrap();
        assert_eq!((&parent[..35], &parent[52..]), (&PARENT[..35], &PARENT[52..]));
        assert_ne!(parent[36..52], PARENT[36..52]);
        assert_eq!(row.metadata.user_id, Some(BUYER));
    }
    let operator = world.token(OTHER_USER, 1, &[Role::Operator]);
    let page = world.get("/api/v1/ops/outbox").token(&operator).send().await;
    assert_eq!(page.data["items"][0]["traceId"], "t-7");
}
