//! Refunds: asked for by the buyer of an order or an operator, settled by the gateway's signed callback.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use chrono::{DateTime, Utc};
use handover_application::use_cases::{self, RequestRefund, SettleRefund};
use handover_domain::{Currency, Money, OrderId, PaymentId, Refund, RefundId, RefundResult, RefundStatus};
use serde::Serialize;

use crate::body::JsonBody;
use crate::callback::{SignedBody, result};
use crate::context::{Caller, Gateway};
use crate::edge::Edge;
use crate::envelope::{Answer, Done};
use crate::fields;
use crate::path::PathId;
use crate::query::Parameters;
use crate::views::rfc3339;

pub(super) fn routes() -> Router<Arc<Edge>> {
    Router::new().route("/callback", post(callback))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RefundView {
    refund_id: RefundId,
    order_id: OrderId,
    payment_id: PaymentId,
    amount: Money,
    currency: Currency,
    status: RefundStatus,
    reason: String,
    #[serde(serialize_with = "rfc3339")]
    create_time: DateTime<Utc>,
}

impl From<Refund> for RefundView {
    fn from(refund: Refund) -> RefundView {
        RefundView {
            refund_id: refund.id,
            order_id: refund.order,
            payment_id: refund.payment,
            amount: refund.amount,
            currency: refund.currency,
            status: refund.status,
            reason: refund.reason,
            create_time: refund.create_time,
        }
    }
}

/// `POST /api/v1/orders/{id}/refunds`.
pub(super) async fn request(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    PathId(order): PathId<OrderId>,
    JsonBody(mut body): JsonBody,
) -> Answer {
    let reason = body.required("reason", fields::short_text(Refund::MAX_REASON_CHARS));
    let reason = body.finish(reason)?;
    let refund = use_cases::request_refund(&edge.app, &context, RequestRefund { order, reason }).await?;
    Done::created(&RefundView::from(refund))
}

/// `GET /api/v1/orders/{id}/refunds`: all of them, as an order has few.
pub(super) async fn of_order(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    PathId(order): PathId<OrderId>,
    parameters: Parameters,
) -> Answer {
    parameters.finish()?;
    let refunds = use_cases::refunds(&edge.app, &context, order).await?;
    Done::page(refunds.into_iter().map(RefundView::from).collect(), None)
}

/// `POST /api/v1/refunds/callback`.
async fn callback(
    State(edge): State<Arc<Edge>>,
    Gateway(context): Gateway,
    SignedBody(mut body): SignedBody,
) -> Answer {
    let refund = body.required("refundId", fields::id);
    let result = body.required("result", result(RefundResult::Success, RefundResult::Failed));
    let (refund, result) = body.finish(refund.zip(result))?;
    let refund = use_cases::settle_refund(&edge.app, &context, SettleRefund { refund, result }).await?;
    Done::ok(&RefundView::from(refund))
}
