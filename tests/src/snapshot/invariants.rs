//! Invariants: statements that must return no row, in SQL that every engine understands.

/// Events of the asset consumers.
const ASSET_EVENTS: &[&str] = &["ORDER_CREATED", "ORDER_PAID", "ORDER_CANCELLED", "ORDER_REFUNDED"];

/// Consumers with the events that they subscribe to (spec §3). `ORDER_TIMEOUT` is excluded, because it is applied only
/// at the payment deadline.
const SUBSCRIPTIONS: [(&str, &[&str]); 8] = [
    ("coupon", ASSET_EVENTS),
    ("wallet", ASSET_EVENTS),
    ("points", ASSET_EVENTS),
    ("inventory", &["ORDER_CREATED", "ORDER_CANCELLED", "ORDER_REFUNDED"]),
    ("fulfillment", &["ORDER_PAID"]),
    ("status-sync", &["ORDER_STATUS_CHANGED"]),
    ("buyer-credit", &["ORDER_CANCELLED", "ORDER_STATUS_CHANGED"]),
    (
        "webhooks",
        &[
            "ORDER_CREATED",
            "ORDER_PAID",
            "ORDER_STATUS_CHANGED",
            "ORDER_CANCELLED",
            "ORDER_REFUNDED",
            "PAYMENT_SUCCEEDED",
            "PAYMENT_FAILED",
            "REFUND_SUCCEEDED",
            "REFUND_FAILED",
            "INVOICE_GENERATED",
        ],
    ),
];

/// SQL that returns each pair of consumer and subscribed event without a consume-log record in one of the statuses
/// `settled`, unless the consumer has no work with the event.
pub(super) fn unsettled_deliveries(settled: &str) -> String {
    let event_types: Vec<String> = SUBSCRIPTIONS
        .iter()
        .flat_map(|(consumer, types)| types.iter().map(move |event_type| (consumer, event_type)))
        .map(|(consumer, event_type)| {
            format!("SELECT '{consumer}' AS consumer, '{event_type}' AS event_type")
        })
        .collect();
    format!(
        "SELECT s.consumer || ' ' || e.event_id FROM outbox_events e
         JOIN ({}) t ON t.event_type = e.event_type
         JOIN outbox_consumer_subscriptions s ON s.consumer = t.consumer AND e.id > s.after_id
         LEFT JOIN event_consume_log l ON l.consumer = s.consumer AND l.event_id = e.event_id AND l.status IN ({settled})
         WHERE l.id IS NULL AND (e.idle_consumers IS NULL OR e.idle_consumers NOT LIKE '%\"' || s.consumer || '\"%')",
        event_types.join(" UNION ALL ")
    )
}

/// The invariants, each with the statement that finds violations.
pub(super) fn invariants() -> Vec<(&'static str, String)> {
    let mut invariants: Vec<_> =
        INVARIANTS.iter().map(|(invariant, sql)| (*invariant, (*sql).to_owned())).collect();
    invariants
        .push(("a subscribed consumer has not applied one of its events", unsettled_deliveries("'SUCCESS'")));
    invariants
}

const INVARIANTS: [(&str, &str); 38] = [
    (
        "an event is not delivered to the consumer of an asset that its order uses",
        "SELECT e.event_id FROM outbox_events e JOIN orders o ON o.id = e.aggregate_id AND e.aggregate_type = 'Order'
         WHERE (o.coupon_id IS NOT NULL AND e.idle_consumers LIKE '%\"coupon\"%')
            OR (o.wallet_minor > 0 AND e.idle_consumers LIKE '%\"wallet\"%')
            OR ((o.points > 0 OR e.event_type IN ('ORDER_PAID', 'ORDER_REFUNDED')) AND e.idle_consumers LIKE '%\"points\"%')",
    ),
    (
        "an order was refunded without exactly one ORDER_REFUNDED, or has one without being refunded",
        "SELECT o.id FROM orders o WHERE CASE o.status WHEN 'refunded' THEN 1 ELSE 0 END <> (
            SELECT count(*) FROM outbox_events e
            WHERE e.aggregate_type = 'Order' AND e.aggregate_id = o.id AND e.event_type = 'ORDER_REFUNDED')",
    ),
    (
        "the ledger does not sum to zero in money",
        "SELECT tenant_id FROM ledger_entries WHERE account IN ('wallet', 'wallet_hold', 'platform', 'suspense', 'gateway')
         GROUP BY tenant_id HAVING sum(amount) <> 0",
    ),
    (
        "the ledger does not sum to zero in points",
        "SELECT tenant_id FROM ledger_entries WHERE account IN ('points', 'points_hold', 'points_debt', 'points_issued')
         GROUP BY tenant_id HAVING sum(amount) <> 0",
    ),
    (
        "an operation of the ledger does not sum to zero",
        "SELECT idempotency_key FROM ledger_entries
         GROUP BY tenant_id, idempotency_key, account LIKE 'points%' HAVING sum(amount) <> 0",
    ),
    (
        "a balance is not the sum of its entries",
        "SELECT b.user_id FROM asset_balances b
         WHERE b.available <> (SELECT coalesce(sum(e.amount), 0) FROM ledger_entries e
                WHERE e.tenant_id = b.tenant_id AND e.user_id = b.user_id AND e.account = b.purse)
            OR b.debt <> -(SELECT coalesce(sum(e.amount), 0) FROM ledger_entries e
                WHERE e.tenant_id = b.tenant_id AND e.user_id = b.user_id AND e.account = 'points_debt'
                AND b.purse = 'points')",
    ),
    (
        "a frozen balance is not the sum of its holds",
        "SELECT b.user_id FROM asset_balances b
         WHERE b.frozen <> (SELECT coalesce(sum(h.amount), 0) FROM asset_holds h
                WHERE h.tenant_id = b.tenant_id AND h.user_id = b.user_id AND h.asset = b.purse AND h.status = 'FROZEN')
            OR b.frozen <> (SELECT coalesce(sum(e.amount), 0) FROM ledger_entries e
                WHERE e.tenant_id = b.tenant_id AND e.user_id = b.user_id AND e.account = b.purse || '_hold')",
    ),
    (
        "the status of a hold does not match its order",
        "SELECT h.order_id FROM asset_holds h LEFT JOIN orders o ON o.id = h.order_id WHERE o.id IS NULL
            OR (o.status = 'cancelled' AND (h.status <> 'RELEASED' OR h.reverted <> 0))
            OR (o.status IN ('paid', 'shipped', 'completed') AND (h.status <> 'COMMITTED' OR h.reverted <> 0))
            OR (o.status = 'refunded' AND (h.status <> 'COMMITTED' OR h.reverted <> 1))",
    ),
    (
        "an order that is not pending does not have exactly one hold per asset",
        "SELECT o.id FROM orders o WHERE o.status <> 'pending' AND
            (SELECT count(*) FROM asset_holds h WHERE h.tenant_id = o.tenant_id AND h.order_id = o.id) <>
            CASE WHEN o.coupon_id IS NULL THEN 0 ELSE 1 END + CASE WHEN o.wallet_minor > 0 THEN 1 ELSE 0 END
            + CASE WHEN o.points > 0 THEN 1 ELSE 0 END",
    ),
    (
        "a USED coupon does not have exactly one committed hold",
        "SELECT c.id FROM coupons c WHERE CASE c.status WHEN 'USED' THEN 1 ELSE 0 END <> (
            SELECT count(*) FROM asset_holds h WHERE h.coupon_id = c.id AND h.status = 'COMMITTED' AND h.reverted = 0)",
    ),
    (
        "the points earned do not match the amount paid",
        // An order earns one point per whole 1.00 paid. The remainder is subtracted before the division, because
        // MariaDB returns a decimal for a division of integers.
        "SELECT o.id FROM orders o
         WHERE (SELECT coalesce(sum(CASE a.kind WHEN 'EARN' THEN a.amount WHEN 'UNEARN' THEN -a.amount ELSE 0 END), 0)
            FROM asset_operations a WHERE a.tenant_id = o.tenant_id AND a.order_id = o.id)
         <> CASE WHEN o.status IN ('paid', 'shipped', 'completed')
            THEN (o.payable_minor - o.payable_minor % 100) / 100 ELSE 0 END",
    ),
    (
        "a successful payment was not captured exactly once, or another payment was captured",
        "SELECT p.id FROM payments p WHERE p.status = 'SUCCESS' AND NOT EXISTS (SELECT 1 FROM payment_captures c
            WHERE c.payment_id = p.id AND c.transaction_id = p.transaction_id AND c.amount_minor = p.amount_minor)
         UNION ALL SELECT c.payment_id FROM payment_captures c WHERE c.amount_minor <>
            (SELECT coalesce(sum(a.amount), 0) FROM asset_operations a WHERE a.tenant_id = c.tenant_id
             AND a.kind = 'CAPTURE' AND a.idempotency_key =
             CASE WHEN c.invoice_id IS NOT NULL AND EXISTS (SELECT 1 FROM payments p WHERE p.id = c.payment_id
                AND p.status = 'SUCCESS' AND p.refund_due = 0 AND p.transaction_id = c.transaction_id)
             THEN 'invoice:' || c.invoice_id || ':capture'
             ELSE 'payment:' || c.payment_id || ':capture' || CASE c.capture_no WHEN 1 THEN '' ELSE ':' || c.capture_no END END)
         UNION ALL SELECT a.id FROM asset_operations a WHERE a.kind = 'CAPTURE' AND a.refund_id IS NULL
            AND NOT EXISTS (SELECT 1 FROM payment_captures c WHERE c.tenant_id = a.tenant_id AND a.idempotency_key =
             CASE WHEN c.invoice_id IS NOT NULL AND EXISTS (SELECT 1 FROM payments p WHERE p.id = c.payment_id
                AND p.status = 'SUCCESS' AND p.refund_due = 0 AND p.transaction_id = c.transaction_id)
             THEN 'invoice:' || c.invoice_id || ':capture'
             ELSE 'payment:' || c.payment_id || ':capture' || CASE c.capture_no WHEN 1 THEN '' ELSE ':' || c.capture_no END END)",
    ),
    (
        "a successful refund was not paid out exactly once, or a refund that did not succeed was paid out",
        // A refund that fails after it has succeeded is booked as a capture.
        "SELECT r.id FROM refunds r LEFT JOIN (SELECT refund_id,
                sum(CASE kind WHEN 'PAYOUT' THEN amount ELSE -amount END) AS minor FROM asset_operations
            WHERE kind IN ('PAYOUT', 'CAPTURE') GROUP BY refund_id) paid ON paid.refund_id = r.id
         WHERE coalesce(paid.minor, 0) <> CASE r.status WHEN 'SUCCESS' THEN r.amount_minor ELSE 0 END",
    ),
    (
        "the refunds of an order do not match its payments",
        "SELECT o.id FROM orders o WHERE (SELECT coalesce(sum(r.amount_minor), 0) FROM refunds r
            JOIN payment_captures p ON p.payment_id = r.payment_id AND p.capture_no = r.capture_no AND p.refund_due = 0
            WHERE r.tenant_id = o.tenant_id AND r.order_id = o.id AND r.status = 'SUCCESS')
         <> CASE o.status WHEN 'refunded' THEN (SELECT coalesce(sum(c.amount_minor), 0) FROM payment_captures c
            WHERE c.tenant_id = o.tenant_id AND c.order_id = o.id AND c.refund_due = 0)
            ELSE 0 END",
    ),
    (
        "a late payment has no refund",
        "SELECT p.payment_id FROM payment_captures p
         LEFT JOIN refunds r ON r.payment_id = p.payment_id AND r.capture_no = p.capture_no
         WHERE p.refund_due = 1 AND r.id IS NULL",
    ),
    (
        "a refund does not match a successful payment",
        "SELECT r.id FROM refunds r
         LEFT JOIN payment_captures p ON p.payment_id = r.payment_id AND p.capture_no = r.capture_no
         WHERE r.status <> 'FAILED' AND (p.amount_minor IS NULL OR r.amount_minor <> p.amount_minor)",
    ),
    (
        "a payment is refunded twice",
        "SELECT payment_id FROM refunds WHERE status <> 'FAILED' AND excess = 0
         GROUP BY payment_id, capture_no HAVING count(*) > 1",
    ),
    (
        "the gateway account does not match deposits, payments and refunds",
        "SELECT t.tenant_id FROM (
            SELECT tenant_id, sum(minor) AS minor FROM (
                SELECT tenant_id, amount AS minor FROM ledger_entries WHERE account = 'gateway'
                UNION ALL SELECT tenant_id, amount AS minor FROM asset_operations WHERE kind = 'DEPOSIT'
                UNION ALL SELECT tenant_id, amount_minor FROM payment_captures
                UNION ALL SELECT tenant_id, -amount_minor FROM refunds WHERE status = 'SUCCESS') moved
            GROUP BY tenant_id) t WHERE t.minor <> 0",
    ),
    (
        "a product has more than one live order",
        "SELECT product_id FROM orders WHERE status NOT IN ('cancelled', 'refunded')
         GROUP BY product_id HAVING count(*) > 1",
    ),
    (
        "a product is sold without a live order",
        "SELECT p.id FROM products p LEFT JOIN orders o
         ON o.product_id = p.id AND o.status NOT IN ('cancelled', 'refunded')
         WHERE p.status = 'sold' AND o.id IS NULL",
    ),
    (
        "a product with a live order is not sold",
        "SELECT p.id FROM products p JOIN orders o ON o.product_id = p.id
         WHERE o.status NOT IN ('cancelled', 'refunded') AND p.status <> 'sold'",
    ),
    (
        "an order has no ORDER_CREATED, or more than one",
        "SELECT o.id FROM orders o WHERE 1 <> (SELECT count(*) FROM outbox_events e
            WHERE e.aggregate_type = 'Order' AND e.aggregate_id = o.id AND e.event_type = 'ORDER_CREATED')",
    ),
    (
        "an order has no ORDER_TIMEOUT, or more than one",
        "SELECT o.id FROM orders o WHERE 1 <> (SELECT count(*) FROM outbox_events e
            WHERE e.aggregate_type = 'Order' AND e.aggregate_id = o.id AND e.event_type = 'ORDER_TIMEOUT')",
    ),
    (
        "an order was paid without exactly one ORDER_PAID, or has one without being paid",
        "SELECT o.id FROM orders o WHERE CASE WHEN o.pay_time IS NOT NULL THEN 1 ELSE 0 END <> (
            SELECT count(*) FROM outbox_events e
            WHERE e.aggregate_type = 'Order' AND e.aggregate_id = o.id AND e.event_type = 'ORDER_PAID')",
    ),
    (
        "an order was cancelled without exactly one ORDER_CANCELLED, or has one without being cancelled",
        "SELECT o.id FROM orders o WHERE CASE o.status WHEN 'cancelled' THEN 1 ELSE 0 END <> (
            SELECT count(*) FROM outbox_events e
            WHERE e.aggregate_type = 'Order' AND e.aggregate_id = o.id AND e.event_type = 'ORDER_CANCELLED')",
    ),
    (
        "the number of ORDER_STATUS_CHANGED events of an order does not match its status",
        "SELECT o.id FROM orders o WHERE CASE o.status WHEN 'shipped' THEN 1 WHEN 'completed' THEN 2 ELSE 0 END <> (
            SELECT count(*) FROM outbox_events e WHERE e.aggregate_type = 'Order' AND e.aggregate_id = o.id
            AND e.event_type = 'ORDER_STATUS_CHANGED')",
    ),
    (
        "an order does not have exactly one listing change that matches its status",
        // An order may have been cancelled or refunded before OCCUPIED was applied; then it has only RELEASED.
        "SELECT o.id FROM orders o WHERE 1 <> (SELECT count(*) FROM listing_changes c
            WHERE c.tenant_id = o.tenant_id AND c.order_id = o.id AND c.product_id = o.product_id
            AND c.kind = CASE WHEN o.status IN ('cancelled', 'refunded') THEN 'RELEASED' ELSE 'OCCUPIED' END)",
    ),
    (
        "a product was released by an order that is neither cancelled nor refunded",
        "SELECT c.order_id FROM listing_changes c JOIN orders o ON o.id = c.order_id
         WHERE c.kind = 'RELEASED' AND o.status NOT IN ('cancelled', 'refunded')",
    ),
    (
        "a paid order does not have exactly one shipment",
        // Refunded orders are not checked, because an order may have been refunded before its shipment was created.
        "SELECT o.id FROM orders o WHERE o.status <> 'refunded' AND CASE WHEN o.pay_time IS NULL THEN 0 ELSE 1 END <> (
            SELECT count(*) FROM shipments s WHERE s.tenant_id = o.tenant_id AND s.order_id = o.id)",
    ),
    (
        "a status change was not notified to buyer and seller exactly once each, or a seller's decline to the buyer",
        "SELECT o.id FROM orders o
         WHERE CASE WHEN o.status = 'shipped' THEN 2 WHEN o.status = 'completed' THEN 4
            WHEN o.cancel_reason = 'seller' OR EXISTS (SELECT 1 FROM refunds r WHERE r.id = o.refund_id
                AND r.cause = 'seller' AND o.status = 'refunded') THEN 1 ELSE 0 END <> (
            SELECT count(*) FROM notifications n WHERE n.tenant_id = o.tenant_id AND n.order_id = o.id
            AND n.user_id = CASE n.side WHEN 'buyer' THEN o.buyer_id ELSE o.seller_id END)",
    ),
    (
        "an effect belongs to no order",
        "SELECT event_id FROM (SELECT event_id, order_id FROM listing_changes UNION ALL SELECT event_id, order_id FROM shipments
            UNION ALL SELECT event_id, order_id FROM notifications
            UNION ALL SELECT event_id, order_id FROM buyer_credit_changes) effects
         WHERE order_id NOT IN (SELECT id FROM orders)",
    ),
    (
        "an order was not counted exactly once in its buyer's credit",
        "SELECT o.id FROM orders o
         WHERE (SELECT count(*) FROM buyer_credit_changes c
            WHERE c.tenant_id = o.tenant_id AND c.order_id = o.id AND c.buyer_id = o.buyer_id
            AND c.step = CASE WHEN o.status = 'completed' THEN 'COMPLETED'
                WHEN o.cancel_reason = 'buyer' THEN 'CANCELLED_BY_BUYER' ELSE 'CANCELLED_BY_TIMEOUT' END)
         <> CASE WHEN o.status = 'completed' OR o.cancel_reason IN ('buyer', 'timeout') THEN 1 ELSE 0 END",
    ),
    (
        "an order was counted with the wrong credit step",
        "SELECT c.event_id FROM buyer_credit_changes c JOIN orders o ON o.id = c.order_id WHERE c.step <>
            CASE WHEN o.status = 'completed' THEN 'COMPLETED' WHEN o.cancel_reason = 'buyer'
            THEN 'CANCELLED_BY_BUYER' WHEN o.cancel_reason = 'timeout' THEN 'CANCELLED_BY_TIMEOUT' ELSE '' END",
    ),
    (
        "a buyer's credit is not the sum of its changes",
        "SELECT c.buyer_id FROM (
            SELECT tenant_id, buyer_id, done, own, late, 100 + done - 2 * own - 5 * late AS score FROM (
                SELECT tenant_id, buyer_id, sum(CASE step WHEN 'COMPLETED' THEN 1 ELSE 0 END) AS done,
                sum(CASE step WHEN 'CANCELLED_BY_BUYER' THEN 1 ELSE 0 END) AS own,
                sum(CASE step WHEN 'CANCELLED_BY_TIMEOUT' THEN 1 ELSE 0 END) AS late
                FROM buyer_credit_changes GROUP BY tenant_id, buyer_id) counted) c
         LEFT JOIN buyer_credit b ON b.tenant_id = c.tenant_id AND b.buyer_id = c.buyer_id
         WHERE b.buyer_id IS NULL OR b.completed <> c.done OR b.cancelled_by_buyer <> c.own
            OR b.cancelled_by_timeout <> c.late
            OR b.score <> CASE WHEN c.score < 0 THEN 0 WHEN c.score > 120 THEN 120 ELSE c.score END",
    ),
    (
        "an effect belongs to no event",
        "SELECT event_id FROM (SELECT event_id FROM listing_changes UNION ALL SELECT event_id FROM shipments
            UNION ALL SELECT event_id FROM notifications UNION ALL SELECT event_id FROM buyer_credit_changes) effects
         WHERE event_id NOT IN (SELECT event_id FROM outbox_events)",
    ),
    (
        "the notifications of an order are not in the sequence of its events",
        "SELECT later.event_id FROM notifications later JOIN notifications earlier
         ON earlier.tenant_id = later.tenant_id AND earlier.order_id = later.order_id AND earlier.side = later.side
         AND earlier.id < later.id WHERE earlier.aggregate_seq >= later.aggregate_seq",
    ),
    (
        "the listing changes of an order are not in the sequence of its events",
        "SELECT later.event_id FROM listing_changes later JOIN listing_changes earlier
         ON earlier.tenant_id = later.tenant_id AND earlier.order_id = later.order_id AND earlier.id < later.id
         WHERE earlier.aggregate_seq >= later.aggregate_seq",
    ),
    ("a dead letter exists", "SELECT message_key || ': ' || reason FROM dead_letters"),
];
