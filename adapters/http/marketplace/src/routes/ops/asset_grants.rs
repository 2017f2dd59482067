//! `/api/v1/ops/wallets`, `/points`, `/coupons`: assets that operators grant to users, once per idempotency key.

use chrono::{DateTime, Utc};
use handover_http::body::JsonBody;
use handover_http::response::Done;
use handover_http::views;
use handover_http::views::Time;
use marketplace::use_cases::operations::{AssetGrant, IssueCoupon};
use marketplace_domain::{Asset, AssetOperation, Coupon, CouponId, Money, UserId};

use crate::bodies;
use crate::command::Command;
use crate::idempotency::Created;
use crate::messages;
use crate::openapi::kinds;
use crate::path::PathId;
use crate::refusal::RouteResult;
use crate::views::AssetAmount;

views! {
    pub(super) AssetGrantView as AssetGrant {
        /// Never null: only the money of an invoice belongs to no user.
        user_id: Option<UserId> = kinds::Id,
        asset: &'static str = kinds::Asset,
        operation: &'static str = kinds::Operation,
        amount: AssetAmount,
        balance_after: Option<AssetAmount>,
        idempotency_key: String,
        create_time: Time,
    }
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
            create_time: Time(operation.at),
        }
    }
}

views! {
    pub(super) IssuedCouponView as IssuedCoupon {
        coupon_id: CouponId,
        user_id: UserId,
        discount: Money,
        min_spend: Money,
        expires_at: Time,
        status: &'static str = kinds::CouponStatus,
        create_time: Time,
    }
}

impl IssuedCouponView {
    /// Computes the status at `now`: when the request is repeated with its key, the coupon may have been used since.
    fn at(now: DateTime<Utc>, coupon: &Coupon) -> IssuedCouponView {
        IssuedCouponView {
            coupon_id: coupon.id,
            user_id: coupon.user,
            discount: coupon.discount,
            min_spend: coupon.min_spend,
            expires_at: Time(coupon.expires_at),
            status: coupon.status_at(now).as_str(),
            create_time: Time(coupon.create_time),
        }
    }
}

impl From<Coupon> for IssuedCouponView {
    /// The coupon as it was issued, for the stored response.
    fn from(coupon: Coupon) -> IssuedCouponView {
        IssuedCouponView::at(coupon.create_time, &coupon)
    }
}

/// Deposits money into a wallet.
///
/// An operator's idempotency key takes effect once per user and does not expire.
#[utoipa::path(
    post,
    path = "/wallets/{userId}/deposits",
    operation_id = "deposit",
    tag = "operators",
    params(("userId" = kinds::Id, Path, description = "The user")),
    request_body = bodies::Deposit,
    responses(
        (status = 201, description = "The grant", body = AssetGrantView),
        (status = 404, description = "The user id is not valid"),
    ),
)]
pub(super) async fn deposit(
    Command(edge, call): Command<Created<AssetGrantView>>,
    PathId(user): PathId<UserId>,
    JsonBody(body): JsonBody<bodies::Deposit>,
) -> RouteResult {
    let (grant, reason) = body.command(|body, _| Some((AssetGrant::Deposit(body.amount?), body.reason?)))?;
    let operation = edge.app.operations.grant_asset(&call, user, grant, reason).await?;
    Done::created(&AssetGrantView::from(operation))
}

/// Grants points to a user.
///
/// An operator's idempotency key takes effect once per user and does not expire.
#[utoipa::path(
    post,
    path = "/points/{userId}/grants",
    operation_id = "grantPoints",
    tag = "operators",
    params(("userId" = kinds::Id, Path, description = "The user")),
    request_body = bodies::Grant,
    responses(
        (status = 201, description = "The grant", body = AssetGrantView),
        (status = 404, description = "The user id is not valid"),
    ),
)]
pub(super) async fn grant(
    Command(edge, call): Command<Created<AssetGrantView>>,
    PathId(user): PathId<UserId>,
    JsonBody(body): JsonBody<bodies::Grant>,
) -> RouteResult {
    let (grant, reason) = body.command(|body, _| Some((AssetGrant::Grant(body.points?), body.reason?)))?;
    let operation = edge.app.operations.grant_asset(&call, user, grant, reason).await?;
    Done::created(&AssetGrantView::from(operation))
}

/// Issues a coupon to a user.
///
/// An operator's idempotency key takes effect once per user and does not expire.
#[utoipa::path(
    post,
    path = "/coupons",
    operation_id = "issueCoupon",
    tag = "operators",
    request_body = bodies::NewCoupon,
    responses((status = 201, description = "The coupon", body = IssuedCouponView)),
)]
pub(super) async fn issue(
    Command(edge, call): Command<Created<IssuedCouponView>>,
    JsonBody(body): JsonBody<bodies::NewCoupon>,
) -> RouteResult {
    let now = edge.app.now();
    let command = body.command(|body, fields| {
        let expires_at = stored_time(body.expires_at?);
        if expires_at <= now {
            return fields.reject("expiresAt", messages::NOT_IN_FUTURE);
        }
        Some(IssueCoupon {
            user: body.user_id?,
            discount: body.discount?,
            min_spend: body.min_spend?.unwrap_or(Money::ZERO),
            expires_at,
            reason: body.reason?,
        })
    })?;
    let coupon = edge.app.operations.issue_coupon(&call, command).await?;
    Done::created(&IssuedCouponView::at(now, &coupon))
}

/// Truncates a time to the stored precision of one microsecond, so that a repeated request is equal to the first.
fn stored_time(time: DateTime<Utc>) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(time.timestamp_micros()).unwrap_or(time)
}
