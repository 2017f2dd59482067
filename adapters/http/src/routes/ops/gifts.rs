//! `/api/v1/ops/wallets`, `/points`, `/coupons`: what an operator gives a user. Under one idempotency key it is given once.

use std::sync::Arc;

use axum::extract::State;
use chrono::{DateTime, Datelike, Utc};
use marketplace::use_cases::operations::{self, Gift, IssueCoupon};
use marketplace_domain::{Asset, AssetOperation, Coupon, CouponId, Money, Points, UserId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::bodies;
use crate::body::JsonBody;
use crate::context::Operator;
use crate::document::kinds;
use crate::edge::Edge;
use crate::envelope::{Answer, Done};
use crate::fields;
use crate::messages::{self, Text};
use crate::path::PathId;
use crate::views::{AssetAmount, rfc3339};

/// The greatest number of points that are granted at a time.
pub(crate) const MAX_GRANT: i64 = 1_000_000_000;
/// The last year that every database can store.
const LAST_YEAR: i32 = 9999;

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new().routes(routes!(deposit)).routes(routes!(grant)).routes(routes!(issue))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Gift)]
pub(in crate::routes) struct GiftView {
    #[schema(value_type = kinds::Id)]
    user_id: UserId,
    #[schema(value_type = kinds::Asset)]
    asset: &'static str,
    #[schema(value_type = kinds::Operation)]
    operation: &'static str,
    #[schema(value_type = kinds::AssetAmount)]
    amount: AssetAmount,
    #[schema(value_type = Option<kinds::AssetAmount>, required)]
    balance_after: Option<AssetAmount>,
    idempotency_key: String,
    #[serde(serialize_with = "rfc3339")]
    #[schema(value_type = kinds::Time)]
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

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = IssuedCoupon)]
pub(in crate::routes) struct IssuedView {
    #[schema(value_type = kinds::Id)]
    coupon_id: CouponId,
    #[schema(value_type = kinds::Id)]
    user_id: UserId,
    #[schema(value_type = kinds::Amount)]
    discount: Money,
    #[schema(value_type = kinds::Amount)]
    min_spend: Money,
    #[serde(serialize_with = "rfc3339")]
    #[schema(value_type = kinds::Time)]
    expires_at: DateTime<Utc>,
    #[schema(value_type = kinds::CouponStatus)]
    status: &'static str,
    #[serde(serialize_with = "rfc3339")]
    #[schema(value_type = kinds::Time)]
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

/// Puts money into a wallet.
///
/// Under one key it is given to a user once for ever.
#[utoipa::path(
    post,
    path = "/wallets/{userId}/deposits",
    operation_id = "deposit",
    tag = "operators",
    params(
        ("userId" = kinds::Id, Path, description = "The user"),
    ),
    request_body = bodies::Deposit,
    responses(
        (status = 201, description = "What was given", body = GiftView),
        (status = 404, description = "There can be no such user"),
    ),
)]
async fn deposit(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    PathId(user): PathId<UserId>,
    JsonBody(mut body): JsonBody,
) -> Answer {
    let amount = body.required("amount", fields::price);
    let reason = body.optional("reason", fields::reason);
    let (amount, reason) = body.finish(amount.zip(reason))?;
    let operation = operations::give(&edge.app, &context, user, Gift::Deposit(amount), reason).await?;
    Done::created(&GiftView::from(operation))
}

/// Gives points.
///
/// Under one key they are given to a user once for ever.
#[utoipa::path(
    post,
    path = "/points/{userId}/grants",
    operation_id = "grantPoints",
    tag = "operators",
    params(
        ("userId" = kinds::Id, Path, description = "The user"),
    ),
    request_body = bodies::Grant,
    responses(
        (status = 201, description = "What was given", body = GiftView),
        (status = 404, description = "There can be no such user"),
    ),
)]
async fn grant(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    PathId(user): PathId<UserId>,
    JsonBody(mut body): JsonBody,
) -> Answer {
    let points = body.required("points", granted);
    let reason = body.optional("reason", fields::reason);
    let (points, reason) = body.finish(points.zip(reason))?;
    let operation = operations::give(&edge.app, &context, user, Gift::Grant(points), reason).await?;
    Done::created(&GiftView::from(operation))
}

/// Gives a coupon.
///
/// Under one key it is given once for ever.
#[utoipa::path(
    post,
    path = "/coupons",
    operation_id = "issueCoupon",
    tag = "operators",
    request_body = bodies::NewCoupon,
    responses(
        (status = 201, description = "The coupon", body = IssuedView),
    ),
)]
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
    let reason = body.optional("reason", fields::reason);
    let command = user.zip(discount).zip(min_spend.zip(expires_at)).zip(reason).map(
        |(((user, discount), (min_spend, expires_at)), reason)| IssueCoupon {
            user,
            discount,
            min_spend: min_spend.unwrap_or(Money::ZERO),
            expires_at,
            reason,
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
    fields::amount_within(value, 0, messages::MIN_SPEND_RANGE)
}

/// A moment that is still to come, cut to the microsecond that is stored: asked again with the same text, it is the same.
fn expiry(value: &Value, now: DateTime<Utc>) -> Result<DateTime<Utc>, Text> {
    let time = fields::time(value)?;
    let stored = DateTime::from_timestamp_micros(time.timestamp_micros()).unwrap_or(time);
    if stored > now && stored.year() <= LAST_YEAR { Ok(stored) } else { Err(messages::NOT_TO_COME) }
}
