//! What an operator sees of people: nothing, unless it holds the role `pii` (spec §1 "tenant"; 002: masked payloads).

use handover_outbox::MASK;

use crate::{CommandContext, Role};

/// Fields of payloads that tell of orders, money and times, and of nobody. Who buys, who sells, how somebody pays and what
/// the gateway calls it (`buyerId`, `sellerId`, `paymentMethod`, `transactionId`) are not among them.
pub(crate) const VISIBLE: [&str; 29] = [
    "amount",
    "cancelledAt",
    "changedAt",
    "couponId",
    "createTime",
    "currency",
    "invoiceId",
    "newStatus",
    "occurredTime",
    "oldStatus",
    "orderId",
    "orderNo",
    "payTime",
    "paymentId",
    "periodEnd",
    "periodStart",
    "points",
    "price",
    "productId",
    "quantity",
    "reason",
    "refundId",
    "refundedAt",
    "status",
    "total",
    "totalAmount",
    "updateTime",
    "version",
    "walletAmount",
];

/// Whether this caller sees people.
pub(crate) fn sees_people(context: &CommandContext) -> bool {
    context.has(Role::Pii)
}

/// What somebody wrote, as this caller sees it.
pub(crate) fn shown_words(context: &CommandContext, words: String) -> String {
    if sees_people(context) { words } else { MASK.to_owned() }
}
