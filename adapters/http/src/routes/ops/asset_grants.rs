//! `/api/v1/ops/wallets`, `/points`, `/coupons`: assets that operators grant to users, once per idempotency key.

use std::sync::Arc;

use axum::extract::State;
use chrono::{DateTime, Datelike, Utc};
use marketplace::use_cases::operations::{self, AssetGrant, IssueCoupon};
use marketplace_domain::{Asset, AssetOperation, Coupon, CouponId, Money, Points, UserId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::bodies;
use crate::body::JsonBody;
use crate::context::Operator;
use crate::document::kinds;
use crate::edge::Edge;
use crate::fields;
use crate::limits::MAX_GRANT;
use crate::messages::{self, Text};
use crate::path::PathId;
use crate::response::{Done, RouteResult};
use crate::views::{AssetAmount, rfc3339};

/// The last year that every database can store.
const LAST_YEAR: i32 = 9999;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AssetGrant)]
pub(in crate::routes) struct AssetGrantView {
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

impl From<AssetOperation> for AssetGrantView {
    fn from(operation: AssetOperation) -> AssetGrantView {
        let asset: Asset = operation.asset;
        let of = |amount: i64| AssetAmount { asset, amount };
        AssetGrantView {
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
pub(in crate::routes) struct IssuedCouponView {
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

impl IssuedCouponView {
    /// Computes the status at `now`: when the request is repeated with its key, the coupon may have been used since.
    pub(in crate::routes) fn at(now: DateTime<Utc>, coupon: &Coupon) -> IssuedCouponView {
        IssuedCouponView {
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

/// Deposits money into a wallet.
///
/// An idempotency key takes effect once per user and does not expire.
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
        (status = 201, description = "The grant", body = AssetGrantView),
        (status = 404, description = "The user id is not valid"),
    ),
)]
pub(super) async fn deposit(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    PathId(user): PathId<UserId>,
    JsonBody(mut body): JsonBody,
) -> RouteResult {
    let amount = body.required("amount", fields::price);
    let reason = body.optional("reason", fields::reason);
    let (amount, reason) = body.finish(amount.zip(reason))?;
    let operation =
        operations::grant_asset(&edge.app, &context, user, AssetGrant::Deposit(amount), reason).await?;
    Done::created(&AssetGrantView::from(operation))
}

/// Grants points to a user.
///
/// An idempotency key takes effect once per user and does not expire.
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
        (status = 201, description = "The grant", body = AssetGrantView),
        (status = 404, description = "The user id is not valid"),
    ),
)]
pub(super) async fn grant(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    PathId(user): PathId<UserId>,
    JsonBody(mut body): JsonBody,
) -> RouteResult {
    let points = body.required("points", granted_points);
    let reason = body.optional("reason", fields::reason);
    let (points, reason) = body.finish(points.zip(reason))?;
    let operation =
        operations::grant_asset(&edge.app, &context, user, AssetGrant::Grant(points), reason).await?;
    Done::created(&AssetGrantView::from(operation))
}

/// Issues a coupon to a user.
///
/// An idempotency key takes effect once and does not expire.
#[utoipa::path(
    post,
    path = "/coupons",
    operation_id = "issueCoupon",
    tag = "operators",
    request_body = bodies::NewCoupon,
    responses(
        (status = 201, description = "The coupon", body = IssuedCouponView),
    ),
)]
pub(super) async fn issue(
    State(edge): State<Arc<Edge>>,
    Operator(context): Operator,
    JsonBody(mut body): JsonBody,
) -> RouteResult {
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
    Done::created(&IssuedCouponView::at(now, &coupon))
}

fn granted_points(value: &Value) -> Result<Points, Text> {
    let points = value.as_number().and_then(|number| number.as_i64());
    let points = points.filter(|points| (1..=MAX_GRANT).contains(points)).ok_or(messages::GRANT_RANGE)?;
    Ok(Points::try_from(points)?)
}

fn min_spend(value: &Value) -> Result<Money, Text> {
    fields::amount_within(value, 0, messages::MIN_SPEND_RANGE)
}

/// Reads a time in the future, truncated to the stored precision of one microsecond, so that a repeated request is equal to
/// the first.
fn expiry(value: &Value, now: DateTime<Utc>) -> Result<DateTime<Utc>, Text> {
    let time = fields::time(value)?;
    let stored = DateTime::from_timestamp_micros(time.timestamp_micros()).unwrap_or(time);
    if stored > now && stored.year() <= LAST_YEAR { Ok(stored) } else { Err(messages::NOT_IN_FUTURE) }
}
