//! Access table: every route, and the outcome for each type of caller.
//!
//! One character per caller, in the order of [`CallerKind::ALL`], in four groups: four callers without a valid token;
//! the gateway; buyer, other buyer, seller, other seller, user of another tenant; operator, operator of another tenant,
//! platform, pii.
//!
//! - `2`: success. A list has items; a POST, PATCH or DELETE changed something.
//! - `0`: success, but without data for this caller: an empty list, or nothing changed.
//! - `>`: redirect. `1`: 401. `3`: 403: the caller may see the resource, but not do this. `4`: 404: the caller cannot see the
//!   resource.

/// A row of the table. Names in braces in `path` and `body` are replaced by ids of the [`super::fixture::AccessFixture`].
pub(crate) struct Row {
    pub(crate) method: &'static str,
    /// The path as in the router.
    pub(crate) route: &'static str,
    pub(crate) path: &'static str,
    pub(crate) body: &'static str,
    pub(crate) cells: &'static str,
}

const fn get(route: &'static str, path: &'static str, cells: &'static str) -> Row {
    Row { method: "GET", route, path, body: "", cells }
}

const fn post(route: &'static str, path: &'static str, body: &'static str, cells: &'static str) -> Row {
    Row { method: "POST", route, path, body, cells }
}

const fn patch(route: &'static str, path: &'static str, body: &'static str, cells: &'static str) -> Row {
    Row { method: "PATCH", route, path, body, cells }
}

const fn delete(route: &'static str, path: &'static str, cells: &'static str) -> Row {
    Row { method: "DELETE", route, path, body: "", cells }
}

const ANYBODY: &str = "2222 2 22222 2222";
const GATEWAY: &str = "1111 2 11111 1111";

#[rustfmt::skip]
pub(crate) const TABLE: &[Row] = &[
    get("/healthz", "/healthz", ANYBODY),
    get("/readyz", "/readyz", ANYBODY),
    get("/metrics", "/metrics", ANYBODY),
    get("/openapi.json", "/openapi.json", ANYBODY),
    get("/", "/", ">>>> > >>>>> >>>>"),
    get("/docs", "/docs", ">>>> > >>>>> >>>>"),
    get("/docs/", "/docs/", ANYBODY),
    get("/docs/{*rest}", "/docs/swagger-ui.css", ANYBODY),

    post("/api/v1/payments/callback", "/api/v1/payments/callback",
        r#"{"paymentId":{payment},"gatewayTxnId":"txn-9","result":"SUCCESS","amount":88.50}"#, GATEWAY),
    post("/api/v1/refunds/callback", "/api/v1/refunds/callback",
        r#"{"refundId":{refund},"result":"SUCCESS"}"#, GATEWAY),

    // Products are visible to all users of their tenant.
    get("/api/v1/products", "/api/v1/products", "1111 1 22220 2022"),
    post("/api/v1/products", "/api/v1/products", r#"{"title":"a lamp","price":5}"#, "1111 1 22222 2222"),
    get("/api/v1/products/{id}", "/api/v1/products/{product}", "1111 1 22224 2422"),
    post("/api/v1/products/{id}/off-shelf", "/api/v1/products/{product}/off-shelf", "", "1111 1 33234 3433"),
    post("/api/v1/products/{id}/on-shelf", "/api/v1/products/{hidden}/on-shelf", "", "1111 1 33234 3433"),

    get("/api/v1/orders", "/api/v1/orders", "1111 1 22000 0000"),
    // The seller gets 403: sellers cannot buy their own products.
    post("/api/v1/orders", "/api/v1/orders", r#"{"productId":{product}}"#, "1111 1 22324 2422"),
    get("/api/v1/orders/{id}", "/api/v1/orders/{pending}", "1111 1 24244 4444"),
    post("/api/v1/orders/{id}/cancel", "/api/v1/orders/{pending}/cancel", "", "1111 1 24244 4444"),
    post("/api/v1/orders/{id}/ship", "/api/v1/orders/{paid}/ship",
        r#"{"carrier":"SF","trackingNo":"SF-2"}"#, "1111 1 34244 4444"),
    post("/api/v1/orders/{id}/complete", "/api/v1/orders/{shipped}/complete", "", "1111 1 24344 4444"),
    get("/api/v1/orders/{id}/payments", "/api/v1/orders/{paid}/payments", "1111 1 24244 4444"),
    post("/api/v1/orders/{id}/payments", "/api/v1/orders/{pending}/payments", "", "1111 1 24344 4444"),
    get("/api/v1/orders/{id}/payments/{paymentId}", "/api/v1/orders/{paying}/payments/{payment}", "1111 1 24244 4444"),
    post("/api/v1/orders/{id}/refunds", "/api/v1/orders/{paid}/refunds",
        r#"{"reason":"it is too tall"}"#, "1111 1 24244 4444"),
    get("/api/v1/orders/{id}/refunds", "/api/v1/orders/{refunding}/refunds", "1111 1 24244 4444"),
    get("/api/v1/orders/{id}/timeline", "/api/v1/orders/{pending}/timeline", "1111 1 24244 4444"),

    get("/api/v1/wallet", "/api/v1/wallet", "1111 1 20000 0000"),
    get("/api/v1/points", "/api/v1/points", "1111 1 20000 0000"),
    get("/api/v1/coupons", "/api/v1/coupons", "1111 1 20000 0000"),
    get("/api/v1/credit", "/api/v1/credit", "1111 1 20000 0000"),
    get("/api/v1/notifications", "/api/v1/notifications", "1111 1 20200 0000"),
    get("/api/v1/shipments", "/api/v1/shipments", "1111 1 00200 0000"),
    get("/api/v1/listings", "/api/v1/listings", "1111 1 00220 0000"),

    get("/api/v1/ops/outbox", "/api/v1/ops/outbox", "1111 1 33333 2023"),
    get("/api/v1/ops/outbox/{eventId}", "/api/v1/ops/outbox/{failed}", "1111 1 33333 2423"),
    post("/api/v1/ops/outbox/redrive", "/api/v1/ops/outbox/redrive",
        r#"{"eventIds":["{failed}"]}"#, "1111 1 33333 2023"),
    // The files of the archive contain events of all tenants.
    post("/api/v1/ops/outbox/archive", "/api/v1/ops/outbox/archive", "{}", "1111 1 33333 3323"),
    post("/api/v1/ops/outbox/restore", "/api/v1/ops/outbox/restore",
        r#"{"eventIds":["{archived}"],"reason":"known"}"#, "1111 1 33333 2023"),
    get("/api/v1/ops/blocked", "/api/v1/ops/blocked", "1111 1 33333 2023"),
    post("/api/v1/ops/blocked/{aggregateType}/{aggregateId}/release",
        "/api/v1/ops/blocked/Order/{blocked}/release", "", "1111 1 33333 2423"),
    get("/api/v1/ops/dead-letters", "/api/v1/ops/dead-letters", "1111 1 33333 2023"),
    post("/api/v1/ops/dead-letters/replay", "/api/v1/ops/dead-letters/replay",
        r#"{"keys":["{dead}"]}"#, "1111 1 33333 2023"),
    post("/api/v1/ops/dead-letters/discard", "/api/v1/ops/dead-letters/discard",
        r#"{"keys":["{dead}"],"reason":"known"}"#, "1111 1 33333 2023"),
    // Operators grant assets in their own tenant only; the platform role has no tenant.
    post("/api/v1/ops/wallets/{userId}/deposits", "/api/v1/ops/wallets/8/deposits",
        r#"{"amount":1}"#, "1111 1 33333 2233"),
    post("/api/v1/ops/points/{userId}/grants", "/api/v1/ops/points/8/grants",
        r#"{"points":1}"#, "1111 1 33333 2233"),
    post("/api/v1/ops/coupons", "/api/v1/ops/coupons",
        r#"{"userId":8,"discount":5,"expiresAt":"2027-01-01T00:00:00Z"}"#, "1111 1 33333 2233"),
    // Only the platform role sees reports of unknown payments and refunds; the fixture has none.
    get("/api/v1/ops/gateway-reports", "/api/v1/ops/gateway-reports", "1111 1 33333 2023"),
    post("/api/v1/ops/gateway-reports/{id}/close", "/api/v1/ops/gateway-reports/{report}/close",
        r#"{"reason":"known"}"#, "1111 1 33333 2423"),
    get("/api/v1/ops/orders", "/api/v1/ops/orders?paymentId={payment}", "1111 1 33333 2023"),
    get("/api/v1/ops/orders/{id}", "/api/v1/ops/orders/{paid}", "1111 1 33333 2423"),
    get("/api/v1/ops/orders/{id}/timeline", "/api/v1/ops/orders/{pending}/timeline", "1111 1 33333 2423"),
    get("/api/v1/ops/orders/{id}/payments/{paymentId}",
        "/api/v1/ops/orders/{paying}/payments/{payment}", "1111 1 33333 2423"),
    post("/api/v1/ops/orders/{id}/refunds", "/api/v1/ops/orders/{paid}/refunds",
        r#"{"reason":"known"}"#, "1111 1 33333 2423"),
    get("/api/v1/ops/orders/{id}/refunds", "/api/v1/ops/orders/{refunding}/refunds", "1111 1 33333 2423"),
    get("/api/v1/ops/refunds", "/api/v1/ops/refunds", "1111 1 33333 2023"),
    get("/api/v1/ops/refunds/{id}", "/api/v1/ops/refunds/{refund}", "1111 1 33333 2423"),
    post("/api/v1/ops/refunds/{id}/retry", "/api/v1/ops/refunds/{refund}/retry",
        r#"{"reason":"known"}"#, "1111 1 33333 2423"),
    post("/api/v1/ops/refunds/{id}/settle", "/api/v1/ops/refunds/{refund}/settle",
        r#"{"reason":"known"}"#, "1111 1 33333 2423"),
    get("/api/v1/invoices", "/api/v1/invoices", "1111 1 33333 2023"),
    get("/api/v1/invoices/{id}", "/api/v1/invoices/{invoice}", "1111 1 33333 2423"),
    get("/api/v1/invoices/{id}/timeline", "/api/v1/invoices/{invoice}/timeline", "1111 1 33333 2423"),
    post("/api/v1/invoices/{id}/payments", "/api/v1/invoices/{invoice}/payments",
        r#"{"paymentMethod":"card"}"#, "1111 1 33333 2423"),
    // Only the platform generates and refunds invoices.
    post("/api/v1/ops/invoices/{id}/refunds", "/api/v1/ops/invoices/{paidInvoice}/refunds",
        r#"{"reason":"known"}"#, "1111 1 33333 3323"),
    post("/api/v1/ops/invoices/generate", "/api/v1/ops/invoices/generate",
        r#"{"tenantId":1,"period":"2025-10"}"#, "1111 1 33333 3323"),
    get("/api/v1/ops/reconciliation", "/api/v1/ops/reconciliation", "1111 1 33333 2223"),
    post("/api/v1/ops/reconciliation/repair", "/api/v1/ops/reconciliation/repair", "", "1111 1 33333 2023"),
    get("/api/v1/ops/reconciliation/findings", "/api/v1/ops/reconciliation/findings", "1111 1 33333 2023"),
    post("/api/v1/ops/reconciliation/findings/{id}/acknowledge",
        "/api/v1/ops/reconciliation/findings/{finding}/acknowledge", r#"{"reason":"known"}"#, "1111 1 33333 2423"),
    // A user is not of one tenant: only the platform erases users.
    post("/api/v1/ops/users/{userId}/erasure", "/api/v1/ops/users/7/erasure",
        r#"{"reason":"known"}"#, "1111 1 33333 3323"),
    get("/api/v1/ops/consumptions", "/api/v1/ops/consumptions", "1111 1 33333 2023"),
    // Queue depths contain no payloads, so every operator may read them.
    get("/api/v1/ops/queues", "/api/v1/ops/queues", "1111 1 33333 2223"),
    get("/api/v1/ops/stats", "/api/v1/ops/stats", "1111 1 33333 2223"),
    get("/api/v1/ops/stats/history", "/api/v1/ops/stats/history", "1111 1 33333 2223"),
    // An alert concerns all tenants: every operator may see it, and only the platform may acknowledge it.
    get("/api/v1/ops/alerts", "/api/v1/ops/alerts", "1111 1 33333 2223"),
    post("/api/v1/ops/alerts/{alert}/acknowledge", "/api/v1/ops/alerts/queue-depth/acknowledge",
        r#"{"until":"2027-01-31T08:00:00Z","reason":"known"}"#, "1111 1 33333 3323"),
    get("/api/v1/webhooks", "/api/v1/webhooks", "1111 1 33333 2023"),
    post("/api/v1/webhooks", "/api/v1/webhooks",
        r#"{"url":"https://a.example","eventTypes":["*"]}"#, "1111 1 33333 2223"),
    // The event types are the same for all tenants.
    get("/api/v1/webhooks/event-types", "/api/v1/webhooks/event-types", "1111 1 33333 2223"),
    get("/api/v1/webhooks/{id}", "/api/v1/webhooks/{webhook}", "1111 1 33333 2423"),
    patch("/api/v1/webhooks/{id}", "/api/v1/webhooks/{webhook}", r#"{"perSecond":1}"#, "1111 1 33333 2423"),
    delete("/api/v1/webhooks/{id}", "/api/v1/webhooks/{webhook}", "1111 1 33333 2423"),
    post("/api/v1/webhooks/{id}/enable", "/api/v1/webhooks/{webhook}/enable", "", "1111 1 33333 2423"),
    post("/api/v1/webhooks/{id}/disable", "/api/v1/webhooks/{webhook}/disable", "", "1111 1 33333 2423"),
    post("/api/v1/webhooks/{id}/rotate-secret", "/api/v1/webhooks/{webhook}/rotate-secret", "", "1111 1 33333 2423"),
    post("/api/v1/webhooks/{id}/test", "/api/v1/webhooks/{webhook}/test",
        r#"{"type":"order.paid"}"#, "1111 1 33333 2423"),
    post("/api/v1/webhooks/{id}/recover", "/api/v1/webhooks/{webhook}/recover",
        r#"{"since":"2026-01-01T00:00:00Z"}"#, "1111 1 33333 2423"),
    get("/api/v1/webhooks/{id}/deliveries", "/api/v1/webhooks/{webhook}/deliveries", "1111 1 33333 2423"),
    get("/api/v1/webhooks/{id}/deliveries/{deliveryId}", "/api/v1/webhooks/{webhook}/deliveries/{delivery}",
        "1111 1 33333 2423"),
    post("/api/v1/webhooks/{id}/deliveries/{deliveryId}/redeliver",
        "/api/v1/webhooks/{webhook}/deliveries/{delivery}/redeliver", "", "1111 1 33333 2423"),
    get("/api/v1/ops/audit", "/api/v1/ops/audit", "1111 1 33333 2023"),
];
