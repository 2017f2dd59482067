//! The routes by their names: as `rate-limit.routes` of the configuration has them.

/// Every route that is limited: those of the API; what tells of the process and of the API itself is not.
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

/// The routes that act in more than one transaction, so that their answer is kept after what they did, where the application
/// keeps such (`idempotency.store`). All others keep it in the transaction of what they do: a command that does so refuses to
/// run under a key that was claimed elsewhere.
pub(crate) const ANSWERED_AFTERWARDS: [&str; 5] = [
    "POST /api/v1/ops/outbox/redrive",
    "POST /api/v1/ops/blocked/{aggregateType}/{aggregateId}/release",
    "POST /api/v1/ops/dead-letters/replay",
    "POST /api/v1/ops/dead-letters/discard",
    "POST /api/v1/ops/reconciliation/repair",
];
