//! Operator requests: redrive, replay, discard, release, and reads.

use super::bodies::each;
use super::case::{Case, get, post};
use super::market::{
    BLOCKED_ORDER, BUYER, DEAD_EVENT, FAILED_EVENT, FOREIGN_OPERATOR, Market, OPERATOR, OTHER_USER, SELLER,
};

const REDRIVE: &str = "/api/v1/ops/outbox/redrive";
const REPLAY: &str = "/api/v1/ops/dead-letters/replay";
const DISCARD: &str = "/api/v1/ops/dead-letters/discard";

pub(crate) fn cases(market: &Market) -> Vec<Case> {
    [
        lists(),
        flags_and_reasons(),
        redrive(),
        replay_and_discard(),
        release(),
        unauthorized(),
        reads(market),
        accepted(),
    ]
    .concat()
}

/// A request body in which only the given fields can be invalid.
fn body_with(path: &str, fields: &str) -> String {
    let event = if path == REDRIVE { FAILED_EVENT } else { DEAD_EVENT };
    let reason = if path == DISCARD && !fields.contains("\"reason\"") { r#","reason":"a test""# } else { "" };
    let named = selector_of(path);
    let ids = if fields.contains(&format!("\"{named}\"")) || fields.contains("\"filter\"") {
        String::new()
    } else {
        format!(r#""{named}":["{event}"],"#)
    };
    format!("{{{ids}{fields}{reason}}}")
}

/// The field that selects items: `eventIds` for events, `keys` for dead letters.
fn selector_of(path: &str) -> &'static str {
    if path == REDRIVE { "eventIds" } else { "keys" }
}

fn request(path: &str, name: &str, fields: &str) -> Case {
    let action = path.rsplit('/').next().unwrap();
    post(&format!("{action}, {name}"), path).by(OPERATOR).json(&body_with(path, fields))
}

/// Invalid lists in `eventIds` or `keys`; the routes to redrive, replay and discard have the same rules.
fn lists() -> Vec<Case> {
    let many = format!("[{}]", vec!["\"e\""; 901].join(","));
    let long = format!("[\"{}\"]", "x".repeat(65));
    let wrong = [
        ("null and no filter", "null"),
        ("text", r#""failed-event""#),
        ("a number", "1"),
        ("an object", r#"{"0":"failed-event"}"#),
        ("an empty list", "[]"),
        ("901 entries", &many),
        ("a number in the list", r#"["failed-event",1]"#),
        ("null in the list", r#"["failed-event",null]"#),
        ("an empty entry", r#"["failed-event",""]"#),
        ("an entry of 65 characters", &long),
        ("an entry with a space", r#"["failed event"]"#),
        ("an entry that is not ASCII", r#"["号"]"#),
        ("a list in a list", r#"[["failed-event"]]"#),
    ];
    let mut cases = Vec::new();
    for path in [REDRIVE, REPLAY, DISCARD] {
        let names = selector_of(path);
        cases
            .extend(each(&wrong, names, |name, value| request(path, name, &format!(r#""{names}":{value}"#))));
        let both = format!(r#""{names}":["failed-event"],"filter":{{"eventType":"ORDER_PAID"}}"#);
        let twice = format!(r#""{names}":["failed-event"],"{names}":["dead-event"]"#);
        cases.extend([
            request(path, "a list and a filter", &both).invalid(&["filter"]),
            request(path, "a duplicate list", &twice).invalid(&[names]),
            request(path, "an unknown field", r#""dryRun":false,"force":true"#).invalid(&["force"]),
        ]);
        for (name, value) in
            [("text", r#""all""#), ("a list", "[]"), ("a number", "1"), ("a boolean", "true")]
        {
            cases.push(
                request(path, &format!("a filter that is {name}"), &format!(r#""filter":{value}"#))
                    .invalid(&["filter"]),
            );
        }
        for (name, body) in
            [("not an object", "[]"), ("cut off", r#"{"eventIds":["fail"#), ("two objects", "{}{}")]
        {
            let action = path.rsplit('/').next().unwrap();
            cases.push(post(&format!("{action}, {name}"), path).by(OPERATOR).json(body).invalid(&["body"]));
        }
    }
    cases
}

fn flags_and_reasons() -> Vec<Case> {
    let long = format!("\"{}\"", "x".repeat(501));
    let no_flag = [("text", r#""true""#), ("a number", "1"), ("a list", "[true]"), ("an object", "{}")];
    let no_reason = [
        ("a number", "7"),
        ("a list", r#"["because"]"#),
        ("an object", r#"{"because":"of"}"#),
        ("empty", r#""""#),
        ("blank", r#""  ""#),
        ("501 characters", &long),
        ("with a line break", r#""a\nb""#),
    ];
    let mut cases = Vec::new();
    for path in [REDRIVE, REPLAY, DISCARD] {
        cases.extend(each(&no_flag, "dryRun", |name, value| {
            request(path, name, &format!(r#""dryRun":{value}"#))
        }));
        cases.extend(each(&no_reason, "reason", |name, value| {
            request(path, name, &format!(r#""reason":{value}"#))
        }));
    }
    cases.push(request(DISCARD, "reason: null", r#""reason":null"#).invalid(&["reason"]));
    let without = format!(r#"{{"keys":["{DEAD_EVENT}"]}}"#);
    cases.push(post("discard without a reason", DISCARD).by(OPERATOR).json(&without).invalid(&["reason"]));
    cases
}

fn redrive() -> Vec<Case> {
    let pace = [
        ("zero", "0"),
        ("10001", "10001"),
        ("negative", "-1"),
        ("text", r#""100""#),
        ("a fraction", "1.5"),
        ("an exponent", "1e2"),
        ("a boolean", "true"),
        ("2^64 and more", "18446744073709551617"),
    ];
    let mut cases =
        each(&pace, "perSecond", |name, value| request(REDRIVE, name, &format!(r#""perSecond":{value}"#)));
    let filtered = |filter: &str, fields: &[&str]| {
        request(REDRIVE, &format!("filter {filter}"), &format!(r#""filter":{filter}"#)).invalid(fields)
    };
    cases.extend([
        filtered("{}", &["filter"]),
        filtered(r#"{"status":null}"#, &["filter"]),
        filtered(r#"{"status":"NEW"}"#, &["filter.status"]),
        filtered(r#"{"status":"RETRY"}"#, &["filter.status"]),
        filtered(r#"{"status":"failed"}"#, &["filter.status"]),
        filtered(r#"{"status":1}"#, &["filter.status"]),
        filtered(r#"{"status":"FAILED","status":"SENT"}"#, &["filter.status"]),
        filtered(r#"{"status":"FAILED","page":1}"#, &["filter.page"]),
        filtered(r#"{"eventType":""}"#, &["filter.eventType"]),
        filtered(r#"{"eventType":7}"#, &["filter.eventType"]),
        filtered(r#"{"aggregateType":""}"#, &["filter.aggregateType"]),
        filtered(r#"{"aggregateId":"900001"}"#, &["filter.aggregateId"]),
        filtered(r#"{"aggregateId":1.5}"#, &["filter.aggregateId"]),
        filtered(r#"{"tenantId":0}"#, &["filter.tenantId"]),
        filtered(r#"{"tenantId":"1"}"#, &["filter.tenantId"]),
        filtered(r#"{"from":"yesterday"}"#, &["filter.from"]),
        filtered(r#"{"to":1769846400}"#, &["filter.to"]),
        filtered(r#"{"from":"2026-01-31","to":"2026-02-31T00:00:00Z"}"#, &["filter.from", "filter.to"]),
    ]);
    cases
}

fn replay_and_discard() -> Vec<Case> {
    let mut cases = Vec::new();
    for path in [REPLAY, DISCARD] {
        let filtered = |filter: &str, fields: &[&str]| {
            request(path, &format!("filter {filter}"), &format!(r#""filter":{filter}"#)).invalid(fields)
        };
        cases.extend([
            filtered(r#"{"queue":""}"#, &["filter.queue"]),
            filtered(r#"{"queue":1}"#, &["filter.queue"]),
            filtered(r#"{"eventType":"a b"}"#, &["filter.eventType"]),
            filtered(r#"{"tenantId":-1}"#, &["filter.tenantId"]),
            filtered(r#"{"status":"OPEN"}"#, &["filter.status"]),
            request(path, "queue: a number", r#""queue":1"#).invalid(&["queue"]),
            request(path, "queue: empty", r#""queue":"""#).invalid(&["queue"]),
            request(path, "a queue and a filter", r#""queue":"q","filter":{"eventType":"ORDER_PAID"}"#)
                .invalid(&["queue"]),
            request(path, "a field of redrive", r#""perSecond":100"#).invalid(&["perSecond"]),
        ]);
    }
    cases
}

fn release() -> Vec<Case> {
    let at = |name: &str, path: &str| {
        post(&format!("release, {name}"), &format!("/api/v1/ops/blocked/{path}/release"))
    };
    let blocked = format!("Order/{BLOCKED_ORDER}");
    let with = |name: &str, body: &str| at(name, &blocked).by(OPERATOR).json(body);
    let not_found = |case: Case| case.refused(404, "A0404", &[]);
    vec![
        with("an unknown field", r#"{"force":true}"#).invalid(&["force"]),
        with("reason: empty", r#"{"reason":""}"#).invalid(&["reason"]),
        with("reason: a number", r#"{"reason":1}"#).invalid(&["reason"]),
        with("tenant 0", r#"{"tenantId":0}"#).invalid(&["tenantId"]),
        with("tenant as text", r#"{"tenantId":"1"}"#).invalid(&["tenantId"]),
        with("not an object", "[]").invalid(&["body"]),
        not_found(with("another tenant", r#"{"tenantId":2}"#)),
        not_found(at("an order that is not blocked", "Order/1").by(OPERATOR)),
        not_found(at("another type", &format!("Payment/{BLOCKED_ORDER}")).by(OPERATOR)),
        not_found(at("an invalid id", "Order/abc").by(OPERATOR)),
        not_found(at("an id with a leading zero", &format!("Order/0{BLOCKED_ORDER}")).by(OPERATOR)),
        not_found(at("from another tenant", &blocked).by(FOREIGN_OPERATOR)),
    ]
}

/// Requests without a token, by a user without a role, and by the operator of another tenant.
fn unauthorized() -> Vec<Case> {
    let reads = [
        "outbox",
        "outbox/failed-event",
        "queues",
        "dead-letters",
        "consumptions",
        "stats",
        "stats/history",
        "alerts",
        "audit",
        "blocked",
        "reconciliation",
        "reconciliation/findings",
    ];
    let release = format!("/api/v1/ops/blocked/Order/{BLOCKED_ORDER}/release");
    let mut requests: Vec<Case> =
        reads.iter().map(|path| get(path, &format!("/api/v1/ops/{path}"))).collect();
    for path in [REDRIVE, REPLAY, DISCARD] {
        requests.push(post(path, path).json(&body_with(path, r#""reason":"a test""#)));
    }
    requests.push(post(&release, &release));
    let mut cases = Vec::new();
    for case in requests {
        let named = |who: &str| Case { name: format!("{who}, {}", case.name), ..case.clone() };
        cases.push(named("without a token").refused(401, "A0301", &[]));
        cases.push(named("by a user").by(BUYER).refused(403, "A0303", &[]));
    }
    // Rows of another tenant are not found, so nothing is done.
    for path in [REDRIVE, REPLAY, DISCARD] {
        let body = body_with(path, r#""dryRun":false"#);
        cases.push(
            post(&format!("another tenant's operator, {path}"), path)
                .by(FOREIGN_OPERATOR)
                .json(&body)
                .unchanged(200),
        );
        let body = body_with(path, r#""filter":{"tenantId":1}"#);
        cases.push(
            post(&format!("another tenant's operator, filter by tenant, {path}"), path)
                .by(FOREIGN_OPERATOR)
                .json(&body)
                .refused(404, "A0404", &[]),
        );
    }
    cases
}

fn reads(market: &Market) -> Vec<Case> {
    let event = format!("/api/v1/ops/outbox/{FAILED_EVENT}");
    let timeline = format!("/api/v1/orders/{}/timeline", market.paid);
    let operators = format!("/api/v1/ops/orders/{}/timeline", market.paid);
    let not_found = |case: Case| case.refused(404, "A0404", &[]);
    vec![
        get("an event", &event).by(OPERATOR).unchanged(200),
        get("an event with a parameter", &format!("{event}?payload=1")).by(OPERATOR).invalid(&["payload"]),
        not_found(get("no such event", "/api/v1/ops/outbox/no-such-event").by(OPERATOR)),
        not_found(get("an invalid event id", "/api/v1/ops/outbox/%20").by(OPERATOR)),
        not_found(get("another tenant's event", &event).by(FOREIGN_OPERATOR)),
        get("timeline read by the buyer", &timeline).by(BUYER).unchanged(200),
        get("timeline read by the seller", &timeline).by(SELLER).unchanged(200),
        get("timeline read by the operator", &operators).by(OPERATOR).unchanged(200),
        not_found(get("timeline of the parties read by the operator", &timeline).by(OPERATOR)),
        get("timeline with a parameter", &format!("{timeline}?limit=1")).by(BUYER).invalid(&["limit"]),
        get("timeline without a token", &timeline).refused(401, "A0301", &[]),
        not_found(get("timeline read by another user", &timeline).by(OTHER_USER)),
        not_found(get("timeline read by another tenant's operator", &operators).by(FOREIGN_OPERATOR)),
        not_found(get("timeline of an order that does not exist", "/api/v1/orders/0/timeline").by(BUYER)),
    ]
}

/// Valid requests, which prove that the requests above were rejected only because of their defects.
fn accepted() -> Vec<Case> {
    let dry_run = |path: &str| request(path, "a dry run", r#""dryRun":true"#).unchanged(200);
    vec![
        dry_run(REDRIVE),
        dry_run(REPLAY),
        dry_run(DISCARD),
        request(REDRIVE, "no such event", r#""eventIds":["no-such-event"]"#).unchanged(200),
        request(REPLAY, "no such dead letter", r#""keys":["no-such-event"]"#).unchanged(200),
        request(DISCARD, "no such dead letter", r#""keys":["no-such-event"]"#).unchanged(200),
        request(DISCARD, "with another queue", r#""queue":"inventory.update.queue""#).unchanged(200),
        request(DISCARD, "with a reason", r#""reason":"a test""#).done(200),
        request(DISCARD, "again", r#""reason":"a test""#).unchanged(200),
        request(REPLAY, "a discarded dead letter", r#""reason":"a test""#).unchanged(200),
        post("release without a body", &format!("/api/v1/ops/blocked/Order/{BLOCKED_ORDER}/release"))
            .by(OPERATOR)
            .done(200),
        post("second release", &format!("/api/v1/ops/blocked/Order/{BLOCKED_ORDER}/release"))
            .by(OPERATOR)
            .refused(404, "A0404", &[]),
    ]
}
