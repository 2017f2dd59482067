//! Payments: started by the buyer of an order, settled by the gateway's signed callback.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use handover_application::use_cases::{self, SettlePayment, StartPayment};
use handover_domain::{Money, OrderId, Payment, PaymentId, PaymentResult, PaymentStatus, Settlement};
use serde::Serialize;

use crate::body::OptionalBody;
use crate::callback::{SignedBody, result};
use crate::context::{Gateway, KeyedCaller};
use crate::edge::Edge;
use crate::envelope::{Answer, Done};
use crate::fields::{self, Fields};
use crate::path::PathId;
use crate::refusal::Refusal;

/// The greatest number of characters of a payment method.
const MAX_METHOD_CHARS: usize = 32;
/// The greatest number of characters of the gateway's transaction id.
const MAX_TRANSACTION_CHARS: usize = 64;
/// The payment method where the buyer names none.
const DEFAULT_METHOD: &str = "online";

pub(super) fn routes() -> Router<Arc<Edge>> {
    Router::new().route("/callback", post(callback))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PaymentView {
    payment_id: PaymentId,
    order_id: OrderId,
    amount: Money,
    status: PaymentStatus,
}

impl From<Payment> for PaymentView {
    fn from(payment: Payment) -> PaymentView {
        PaymentView {
            payment_id: payment.id,
            order_id: payment.order,
            amount: payment.amount,
            status: payment.status,
        }
    }
}

/// `POST /api/v1/orders/{id}/payments`.
pub(super) async fn start(
    State(edge): State<Arc<Edge>>,
    KeyedCaller(context): KeyedCaller,
    PathId(order): PathId<OrderId>,
    OptionalBody(mut body): OptionalBody,
) -> Answer {
    let method = body.optional("paymentMethod", fields::short_text(MAX_METHOD_CHARS));
    let method = body.finish(method)?.unwrap_or_else(|| DEFAULT_METHOD.to_owned());
    let payment = use_cases::start_payment(&edge.app, &context, StartPayment { order, method }).await?;
    Done::created(&PaymentView::from(payment))
}

/// `POST /api/v1/payments/callback`.
async fn callback(
    State(edge): State<Arc<Edge>>,
    Gateway(context): Gateway,
    SignedBody(body): SignedBody,
) -> Answer {
    let command = report(body)?;
    let payment = use_cases::settle_payment(&edge.app, &context, command).await?;
    Done::ok(&PaymentView::from(payment))
}

fn report(mut body: Fields) -> Result<SettlePayment, Refusal> {
    let payment = body.required("paymentId", fields::id);
    let transaction_id = body.required("gatewayTxnId", fields::visible_ascii(MAX_TRANSACTION_CHARS));
    let result = body.required("result", result(PaymentResult::Success, PaymentResult::Failed));
    let amount = body.required("amount", fields::money);
    let command = payment.zip(transaction_id).zip(result.zip(amount)).map(
        |((payment, transaction_id), (result, amount))| SettlePayment {
            payment,
            report: Settlement { transaction_id, result, amount },
        },
    );
    body.finish(command)
}
