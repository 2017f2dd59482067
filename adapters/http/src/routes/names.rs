//! Names of the routes, as used in `rate-limit.routes` of the configuration.

/// All rate-limited routes: those of the API. Health, metrics and documentation are not limited.
pub const LIMITED_ROUTES: &[&str] = &[
    "GET /api/v1/products",
    "GET /api/v1/products/{id}",
    "GET /api/v1/orders",
    "GET /api/v1/orders/{id}",
    "GET /api/v1/orders/{id}/refunds",
    "GET /api/v1/orders/{id}/timeline",
    "GET /api/v1/wallet",
    "GET /api/v1/points",
    "GET /api/v1/coupons",
    "GET /api/v1/credit",
    "GET /api/v1/notifications",
    "GET /api/v1/shipments",
    "GET /api/v1/listings",
    "GET /api/v1/ops/outbox",
    "GET /api/v1/ops/outbox/{eventId}",
    "GET /api/v1/ops/blocked",
    "GET /api/v1/ops/dead-letters",
    "GET /api/v1/ops/reconciliation",
    "GET /api/v1/ops/queues",
    "GET /api/v1/ops/consumptions",
    "GET /api/v1/ops/stats",
    "GET /api/v1/ops/audit",
    "POST /api/v1/products",
    "POST /api/v1/products/{id}/off-shelf",
    "POST /api/v1/products/{id}/on-shelf",
    "POST /api/v1/orders",
    "POST /api/v1/orders/{id}/cancel",
    "POST /api/v1/orders/{id}/ship",
    "POST /api/v1/orders/{id}/complete",
    "POST /api/v1/orders/{id}/payments",
    "POST /api/v1/orders/{id}/refunds",
    "POST /api/v1/payments/callback",
    "POST /api/v1/refunds/callback",
    "POST /api/v1/ops/outbox/redrive",
    "POST /api/v1/ops/blocked/{aggregateType}/{aggregateId}/release",
    "POST /api/v1/ops/dead-letters/replay",
    "POST /api/v1/ops/dead-letters/discard",
    "POST /api/v1/ops/reconciliation/repair",
    "POST /api/v1/ops/wallets/{userId}/deposits",
    "POST /api/v1/ops/points/{userId}/grants",
    "POST /api/v1/ops/coupons",
];

/// Routes that use more than one transaction. Their response is stored afterwards, in the store that
/// `idempotency.store` selects. All other POST routes store their response in the transaction of the command; such a
/// command refuses to run if its key was claimed in another store.
pub(crate) const STORED_AFTERWARDS: [&str; 5] = [
    "POST /api/v1/ops/outbox/redrive",
    "POST /api/v1/ops/blocked/{aggregateType}/{aggregateId}/release",
    "POST /api/v1/ops/dead-letters/replay",
    "POST /api/v1/ops/dead-letters/discard",
    "POST /api/v1/ops/reconciliation/repair",
];
