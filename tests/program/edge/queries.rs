//! Query parameters: pages, filters, and unknown parameters.

use super::case::{Case, get, post};
use super::market::{BUYER, Market, OPERATOR};

pub(crate) fn cases(_: &Market) -> Vec<Case> {
    [pages(), filters(), special()].concat()
}

fn read(query: &str) -> Case {
    let path = format!("/api/v1/{query}");
    let case = get(&format!("query {query}"), &path);
    if query.starts_with("ops/") { case.by(OPERATOR) } else { case.by(BUYER) }
}

/// Every list has `limit` and `cursor` and rejects unknown parameters.
fn pages() -> Vec<Case> {
    let mut cases = Vec::new();
    let lists =
        ["products", "orders", "notifications", "shipments", "listings", "wallet", "points", "coupons"];
    let of_operators =
        ["outbox", "dead-letters", "consumptions", "blocked", "audit"].map(|list| format!("ops/{list}"));
    for list in lists.into_iter().chain(of_operators.iter().map(String::as_str)) {
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("cursor=x", "cursor"),
            ("offset=1", "offset"),
            ("limit=1&limit=1", "limit"),
        ] {
            cases.push(read(&format!("{list}?{query}")).invalid(&[field]));
        }
        cases.push(read(&format!("{list}?limit=100&cursor=9007199254740991")).unchanged(200));
    }
    for limit in ["-1", "abc", "1.5", "1e1", "0x1", "%20", "9999999999999999999999"] {
        cases.push(read(&format!("products?limit={limit}")).invalid(&["limit"]));
    }
    for cursor in ["0", "-1", "1.0", "9007199254740992", "9223372036854775808", "%00"] {
        cases.push(read(&format!("products?cursor={cursor}")).invalid(&["cursor"]));
    }
    cases
}

fn filters() -> Vec<Case> {
    [
        ("products?status=gone", "status"),
        ("products?status=ON_SALE", "status"),
        ("orders?status=on_sale", "status"),
        ("orders?as=stranger", "as"),
        ("orders?as=", "as"),
        ("shipments?as=operator", "as"),
        ("ops/outbox?status=DEAD", "status"),
        ("ops/outbox?status=failed", "status"),
        ("ops/outbox?aggregateType=%00", "aggregateType"),
        ("ops/outbox?aggregateId=x", "aggregateId"),
        ("ops/outbox?aggregateId=1.0", "aggregateId"),
        ("ops/outbox?tenantId=0", "tenantId"),
        ("ops/outbox?tenantId=acme", "tenantId"),
        ("ops/outbox?eventType=%00", "eventType"),
        ("ops/outbox?from=yesterday", "from"),
        ("ops/outbox?from=2026-01-31", "from"),
        ("ops/outbox?to=2026-01-31T08:00:00", "to"),
        ("ops/outbox?to=1769846400", "to"),
        ("ops/outbox?to=2026-13-31T08:00:00Z", "to"),
        ("ops/outbox?from=2026-01-31T08:00:00+08:00", "from"),
        ("ops/reconciliation?to=2026-01-31T08:00:00+08:00", "to"),
        ("ops/queues?name=x", "name"),
        ("ops/dead-letters?status=DEAD", "status"),
        ("ops/dead-letters?status=open", "status"),
        ("ops/dead-letters?queue=a%20b", "queue"),
        ("ops/dead-letters?eventType=%00", "eventType"),
        ("ops/dead-letters?tenantId=x", "tenantId"),
        ("ops/consumptions?status=DONE", "status"),
        ("ops/consumptions?eventId=a%20b", "eventId"),
        ("ops/consumptions?consumer=%09", "consumer"),
        ("ops/consumptions?tenantId=-1", "tenantId"),
        ("ops/blocked?tenantId=0", "tenantId"),
        ("ops/audit?tenantId=0", "tenantId"),
        ("ops/audit?actor=x", "actor"),
        ("ops/audit?changes=maybe", "changes"),
        ("ops/stats?tenantId=0", "tenantId"),
        ("ops/stats?limit=1", "limit"),
        ("ops/reconciliation?tenantId=0", "tenantId"),
        ("ops/reconciliation?from=yesterday", "from"),
        ("ops/reconciliation?to=2026-01-31", "to"),
        ("ops/reconciliation?from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z", "from"),
        ("ops/reconciliation?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("ops/reconciliation?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:01Z", "from"),
        ("ops/reconciliation?from=9999-01-01T00:00:00Z", "from"),
        ("ops/reconciliation?repair=true", "repair"),
        ("ops/reconciliation?grace=1", "grace"),
        ("ops/reconciliation?limit=1", "limit"),
        ("credit?user=1", "user"),
        ("wallet?userId=1", "userId"),
        ("points?tenantId=2", "tenantId"),
        ("coupons?status=USED", "status"),
    ]
    .into_iter()
    .map(|(query, field)| read(query).invalid(&[field]))
    .collect()
}

fn special() -> Vec<Case> {
    let long = "x".repeat(65);
    vec![
        read(&format!("ops/outbox?eventType={long}")).invalid(&["eventType"]),
        read("orders?status=gone&as=nobody&limit=0&page=2").invalid(&["status", "as", "limit", "page"]),
        // A `%` that begins no byte, and bytes that are not UTF-8.
        read("ops/outbox?eventType=%zz").invalid(&["query"]),
        read("ops/outbox?eventType=A%").invalid(&["query"]),
        read("ops/outbox?eventType=A%4").invalid(&["query"]),
        read("ops/outbox?eventType=%FF").invalid(&["query"]),
        read("products?%C3%28=1").invalid(&["query"]),
        post("query, malformed percent-encoding with a body", "/api/v1/orders/1/cancel?a=%")
            .by(BUYER)
            .json("{}")
            .invalid(&["query"]),
        read("ops/outbox?from=2026-01-31T08:00:00%2B08:00").unchanged(200),
        read("products?Limit=1").invalid(&["Limit"]),
        read("ops/outbox?tenantId=2").refused(404, "A0404", &[]),
        read("ops/dead-letters?tenantId=2").refused(404, "A0404", &[]),
        read("ops/consumptions?tenantId=2").refused(404, "A0404", &[]),
        read("ops/blocked?tenantId=2").refused(404, "A0404", &[]),
        read("ops/audit?tenantId=2").refused(404, "A0404", &[]),
        read("ops/stats?tenantId=2").refused(404, "A0404", &[]),
        read("ops/reconciliation?tenantId=2").refused(404, "A0404", &[]),
        read("ops/outbox?status=&limit=").unchanged(200),
    ]
}
