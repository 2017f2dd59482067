//! `/api/v1/ops/wallets`, `/points`, `/coupons`: what an operator gives a user. Under one idempotency key it is given once.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use chrono::{DateTime, Datelike, Utc};
use handover_application::use_cases::operations::{self, Gift, IssueCoupon};
use handover_domain::{Asset, AssetOperation, Coupon, CouponId, Money, Points, Product, UserId};
use serde::Serialize;
use serde_json::Value;

use crate::body::JsonBody;
use crate::context::Operator;
use crate::edge::Edge;
use crate::envelope::{Answer, Done};
use crate::fields;
use crate::messages::{self, Text};
use crate::path::PathId;
use crate::views::{AssetAmount, rfc3339};

/// The greatest number of points that are granted at a time.
const MAX_GRANT: i64 = 1_000_000_000;
/// The last year that every database can store.
const LAST_YEAR: i32 = 9999;

pub(super) fn routes() -> Router<Arc<Edge>> {
    Router::new()
        .route("/wallets/{userId}/deposits", post(deposit))
        .route("/points/{userId}/grants", post(grant))
        .route("/coupons", post(issue))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::routes) struct GiftView {
    user_id: UserId,
    asset: &'static str,
    operation: &'static str,
    amount: AssetAmount,
    balance_after: Option<AssetAmount>,
    idempotency_key: String,
    #[serde(serialize_with = "rfc3339")]
    create_time: DateTime<Utc>,
}

impl From<AssetOperation> for GiftView {
    fn from(operation: AssetOperation) -> GiftView {
        let asset: Asset = operation.asset;
        let of = |amount: i64| AssetAmount { asset, amount };
        GiftView {
            user_id: operation.user,
            asset: asset.as_str(),
            operation: operation.kind.as_str(),
            amount: of(operation.amount),
            balance_after: operation.balance_after.map(of),
            idempotency_key: operation.key.to_string(),
            create_time: operation.at,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::routes) struct IssuedView {
    coupon_id: CouponId,
    user_id: UserId,
    discount: Money,
    min_spend: Money,
    #[serde(serialize_with = "rfc3339")]
    expires_at: DateTime<Utc>,
    status: &'static str,
    #[serde(serialize_with = "rfc3339")]
    create_time: DateTime<Utc>,
}

impl IssuedView {
    /// Given again under the same key, it may have been used since.
    pub(in crate::routes) fn at(now: DateTime<Utc>, coupon: &Coupon) -> IssuedView {
        IssuedView {
            coupon_id: coupon.id,
            user_id: coupon.user,
            discount: coupon.discount,
            min_spend: coupon.min_spend,
            expires_at: coupon.expires_at,
            status: coupon.status_at(now).as_str(),
            create_time: coupon.create_time,
        }
    }
}

async fn deposit(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    PathId(user): PathId<UserId>,
    JsonBody(mut body): JsonBody,
) -> Answer {
    let amount = body.required("amount", fields::price);
    let amount = body.finish(amount)?;
    let operation = operations::give(&edge.app, &context, user, Gift::Deposit(amount)).await?;
    Done::created(&GiftView::from(operation))
}

async fn grant(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    PathId(user): PathId<UserId>,
    JsonBody(mut body): JsonBody,
) -> Answer {
    let points = body.required("points", granted);
    let points = body.finish(points)?;
    let operation = operations::give(&edge.app, &context, user, Gift::Grant(points)).await?;
    Done::created(&GiftView::from(operation))
}

async fn issue(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    JsonBody(mut body): JsonBody,
) -> Answer {
    let now = edge.app.now();
    let user = body.required("userId", fields::id);
    let discount = body.required("discount", fields::price);
    let min_spend = body.optional("minSpend", min_spend);
    let expires_at = body.required("expiresAt", |value| expiry(value, now));
    let command = user.zip(discount).zip(min_spend.zip(expires_at)).map(
        |((user, discount), (min_spend, expires_at))| IssueCoupon {
            user,
            discount,
            min_spend: min_spend.unwrap_or(Money::ZERO),
            expires_at,
        },
    );
    let command = body.finish(command)?;
    let coupon = operations::issue_coupon(&edge.app, &context, command).await?;
    Done::created(&IssuedView::at(now, &coupon))
}

fn granted(value: &Value) -> Result<Points, Text> {
    let points = value.as_number().and_then(|number| number.as_i64());
    let points = points.filter(|points| (1..=MAX_GRANT).contains(points)).ok_or(messages::GRANT_RANGE)?;
    Ok(Points::try_from(points)?)
}

fn min_spend(value: &Value) -> Result<Money, Text> {
    let money = fields::money(value)?;
    if money.minor() <= *Product::PRICE_MINOR.end() { Ok(money) } else { Err(messages::MIN_SPEND_RANGE) }
}

/// A moment that is still to come, cut to the microsecond that is stored: asked again with the same text, it is the same.
fn expiry(value: &Value, now: DateTime<Utc>) -> Result<DateTime<Utc>, Text> {
    let time = fields::time(value)?;
    let stored = DateTime::from_timestamp_micros(time.timestamp_micros()).unwrap_or(time);
    if stored > now && stored.year() <= LAST_YEAR { Ok(stored) } else { Err(messages::NOT_TO_COME) }
}
