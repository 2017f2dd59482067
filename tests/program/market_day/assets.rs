//! What the ledger, the holds and the refunds of a day must be, in SQL.

use handover_tests::books::Books;

/// Sentences that must be true of no row, and the rows that would break them.
const NEVER: [(&str, &str); 12] = [
    (
        "the ledger of a tenant does not sum to zero, in money or in points",
        "SELECT tenant_id, account LIKE 'points%' AS of_points, sum(amount) FROM ledger_entries
         GROUP BY tenant_id, of_points HAVING sum(amount) <> 0",
    ),
    (
        "an operation does not sum to zero",
        "SELECT idempotency_key FROM ledger_entries GROUP BY tenant_id, idempotency_key,
         account LIKE 'points%' HAVING sum(amount) <> 0",
    ),
    (
        "a balance is not the sum of its entries",
        "SELECT b.user_id || ' ' || b.purse FROM asset_balances b WHERE
         b.available <> (SELECT coalesce(sum(e.amount), 0) FROM ledger_entries e
            WHERE e.tenant_id = b.tenant_id AND e.user_id = b.user_id AND e.account = b.purse)
         OR b.frozen <> (SELECT coalesce(sum(e.amount), 0) FROM ledger_entries e
            WHERE e.tenant_id = b.tenant_id AND e.user_id = b.user_id AND e.account = b.purse || '_hold')
         OR -b.debt <> (SELECT coalesce(sum(e.amount), 0) FROM ledger_entries e
            WHERE e.tenant_id = b.tenant_id AND e.user_id = b.user_id AND e.account = b.purse || '_debt')",
    ),
    ("a hold is not resolved", "SELECT order_id || ' ' || asset FROM asset_holds WHERE status = 'FROZEN'"),
    (
        "a hold ended otherwise than its order",
        "SELECT h.order_id || ' ' || h.asset FROM asset_holds h LEFT JOIN orders o ON o.id = h.order_id
         WHERE h.status || h.reverted <> CASE WHEN o.status IN ('paid', 'shipped', 'completed') THEN 'COMMITTED0'
            WHEN o.status = 'refunded' THEN 'COMMITTED1' WHEN o.status = 'cancelled' THEN 'RELEASED0' ELSE '' END",
    ),
    (
        "an order names what was never held for it",
        "SELECT o.id FROM orders o WHERE (o.coupon_id IS NOT NULL) + (o.wallet_minor > 0) + (o.points > 0)
         <> (SELECT count(*) FROM asset_holds h WHERE h.tenant_id = o.tenant_id AND h.order_id = o.id)",
    ),
    (
        "a coupon is used twice",
        "SELECT coupon_id FROM asset_holds WHERE asset = 'coupon' AND status = 'COMMITTED' AND reverted = 0
         GROUP BY coupon_id HAVING count(*) > 1",
    ),
    (
        "points were not earned by what was paid",
        "SELECT o.id FROM orders o WHERE (SELECT coalesce(sum(CASE p.kind WHEN 'EARN' THEN p.amount
            WHEN 'UNEARN' THEN -p.amount ELSE 0 END), 0) FROM asset_operations p WHERE p.order_id = o.id)
         <> CASE WHEN o.status IN ('paid', 'shipped', 'completed') THEN o.payable_minor / 100 ELSE 0 END",
    ),
    (
        "what was paid was not captured",
        "SELECT p.id FROM payments p WHERE (SELECT coalesce(sum(c.amount), 0) FROM asset_operations c
            WHERE c.kind = 'CAPTURE' AND c.idempotency_key = 'payment:' || p.id || ':capture')
         <> CASE p.status WHEN 'SUCCESS' THEN p.amount_minor ELSE 0 END",
    ),
    (
        "a refunded order did not get back what was captured, or another one did",
        "SELECT o.id FROM orders o WHERE (SELECT coalesce(sum(r.amount_minor), 0) FROM refunds r
            JOIN payments p ON p.id = r.payment_id
            WHERE r.order_id = o.id AND r.status = 'SUCCESS' AND p.refund_due = 0)
         <> CASE o.status WHEN 'refunded' THEN (SELECT sum(c.amount_minor) FROM payments c
            WHERE c.order_id = o.id AND c.status = 'SUCCESS' AND c.refund_due = 0) ELSE 0 END",
    ),
    (
        "a late payment was not paid back once",
        "SELECT p.id FROM payments p WHERE p.status = 'SUCCESS' AND p.refund_due = 1
         AND 1 <> (SELECT count(*) FROM refunds r WHERE r.payment_id = p.id AND r.status = 'SUCCESS'
            AND r.amount_minor = p.amount_minor)",
    ),
    (
        "a refund is open, or its money did not go out once",
        "SELECT r.id FROM refunds r WHERE r.status = 'PROCESSING'
         OR (SELECT coalesce(sum(p.amount), 0) FROM asset_operations p
            WHERE p.kind = 'PAYOUT' AND p.refund_id = r.id)
         <> CASE r.status WHEN 'SUCCESS' THEN r.amount_minor ELSE 0 END",
    ),
];

/// The sentences that some row breaks, each with how many do and the first.
pub(crate) async fn broken(books: &Books) -> Vec<String> {
    let mut broken = Vec::new();
    for (sentence, sql) in NEVER {
        let rows = books.rows(sql).await.unwrap_or_else(|error| panic!("{sentence}: {error}"));
        if let Some(first) = rows.first() {
            broken.push(format!("{sentence}: {} times, such as {first}", rows.len()));
        }
    }
    broken
}

/// Counts that are zero on a day on which nothing of it happened: then the sentences would say nothing.
pub(crate) async fn nothing_of(books: &Books) -> Vec<&'static str> {
    let mut missing = Vec::new();
    for sql in [
        "SELECT count(*) FROM ledger_entries",
        "SELECT count(*) FROM asset_holds WHERE status = 'COMMITTED' AND reverted = 1",
        "SELECT count(*) FROM orders WHERE cancel_reason = 'asset_lock_failed'",
        "SELECT count(*) FROM orders WHERE cancel_reason = 'payment_failed'",
        "SELECT count(*) FROM coupons WHERE status = 'USED'",
        "SELECT count(*) FROM refunds WHERE status = 'FAILED'",
        "SELECT count(*) FROM refunds WHERE status = 'SUCCESS' AND cause = 'late_payment'",
    ] {
        if books.number(sql).await == 0 {
            missing.push(sql);
        }
    }
    missing
}
