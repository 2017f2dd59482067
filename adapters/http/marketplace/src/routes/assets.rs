//! `/api/v1/wallet`, `/points`, `/coupons`: the caller's assets.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use handover_http::openapi::Paging;
use handover_http::query::Parameters;
use handover_http::response::{Done, PageView};
use handover_http::views;
use handover_http::views::Time;
use handover_outbox::ports::Numbered;
use marketplace::CommandContext;
use marketplace::ports::LedgerEntry;
use marketplace::use_cases::AccountBalance;
use marketplace_domain::{Coupon, CouponId, Hold, Money, OrderId, Purse, RefundId};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::context::Caller;
use crate::edge::Edge;
use crate::openapi::kinds;
use crate::refusal::RouteResult;
use crate::views::AssetAmount;

type CouponPage = PageView<CouponView>;

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new().routes(routes!(wallet)).routes(routes!(points)).routes(routes!(coupons))
}

/// A balance with its holds and a page of ledger entries.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Balance)]
struct BalanceView {
    available: AssetAmount,
    frozen: AssetAmount,
    /// Points owed; absent for a wallet, which cannot have a debt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AssetAmount)]
    debt: Option<AssetAmount>,
    holds: Vec<HoldView>,
    entries: Vec<EntryView>,
    #[schema(required)]
    next_cursor: Option<String>,
}

views! {
    HoldView as Hold {
        order_id: OrderId,
        amount: AssetAmount,
        status: &'static str = kinds::HoldStatus,
        create_time: Time,
    }
}

views! {
    EntryView as LedgerEntry {
        id: i64,
        account: &'static str = kinds::Account,
        amount: AssetAmount,
        balance_after: Option<AssetAmount>,
        operation: &'static str = kinds::Operation,
        idempotency_key: String,
        order_id: Option<OrderId>,
        refund_id: Option<RefundId>,
        create_time: Time,
    }
}

impl From<AccountBalance> for BalanceView {
    fn from(AccountBalance { balance, holds, entries }: AccountBalance) -> BalanceView {
        let asset = balance.purse.asset();
        let of = |amount: i64| AssetAmount { asset, amount };
        BalanceView {
            available: of(balance.available),
            frozen: of(balance.frozen),
            debt: (balance.purse == Purse::Points).then(|| of(balance.debt)),
            holds: holds.into_iter().map(HoldView::from).collect(),
            entries: entries.items.into_iter().map(EntryView::from).collect(),
            next_cursor: entries.next.map(|id| id.to_string()),
        }
    }
}

impl From<Hold> for HoldView {
    fn from(hold: Hold) -> HoldView {
        HoldView {
            order_id: hold.order,
            amount: AssetAmount { asset: hold.asset, amount: hold.amount },
            status: hold.status.as_str(),
            create_time: Time(hold.create_time),
        }
    }
}

impl From<Numbered<LedgerEntry>> for EntryView {
    fn from(Numbered { id, effect }: Numbered<LedgerEntry>) -> EntryView {
        let LedgerEntry { operation, entry } = effect;
        let of = |amount: i64| AssetAmount { asset: entry.account.asset(), amount };
        EntryView {
            id,
            account: entry.account.as_str(),
            amount: of(entry.amount),
            balance_after: entry.balance_after.map(of),
            operation: operation.kind.as_str(),
            idempotency_key: operation.key.to_string(),
            order_id: operation.order,
            refund_id: operation.refund,
            create_time: Time(operation.at),
        }
    }
}

views! {
    CouponView as Coupon {
        coupon_id: CouponId,
        discount: Money,
        min_spend: Money,
        expires_at: Time,
        status: &'static str = kinds::CouponStatus,
        /// The order that has locked or used the coupon; null if there is none.
        order_id: Option<OrderId>,
    }
}

impl CouponView {
    /// Computes the status at `now`: a coupon may have expired before a job records the expiry.
    fn at(now: DateTime<Utc>, coupon: &Coupon) -> CouponView {
        CouponView {
            coupon_id: coupon.id,
            discount: coupon.discount,
            min_spend: coupon.min_spend,
            expires_at: Time(coupon.expires_at),
            status: coupon.status_at(now).as_str(),
            order_id: coupon.order,
        }
    }
}

/// Returns the caller's wallet.
#[utoipa::path(
    get,
    path = "/wallet",
    operation_id = "wallet",
    tag = "assets",
    params(Paging),
    responses(
        (status = 200, description = "The balance, its holds, and a page of ledger entries", body = BalanceView),
    ),
)]
async fn wallet(Caller(edge, context): Caller, parameters: Parameters) -> RouteResult {
    purse(&edge, &context, Purse::Wallet, parameters).await
}

/// Returns the caller's points.
#[utoipa::path(
    get,
    path = "/points",
    operation_id = "points",
    tag = "assets",
    params(Paging),
    responses(
        (status = 200, description = "The balance, its holds, and a page of ledger entries", body = BalanceView),
    ),
)]
async fn points(Caller(edge, context): Caller, parameters: Parameters) -> RouteResult {
    purse(&edge, &context, Purse::Points, parameters).await
}

async fn purse(edge: &Edge, context: &CommandContext, purse: Purse, parameters: Parameters) -> RouteResult {
    let (before, limit) = parameters.finish_page()?;
    let purse = edge.app.queries.purse(context, purse, before, limit).await?;
    Done::ok(&BalanceView::from(purse))
}

/// Lists the caller's coupons.
#[utoipa::path(
    get,
    path = "/coupons",
    operation_id = "coupons",
    tag = "assets",
    params(Paging),
    responses((status = 200, description = "A page of coupons", body = CouponPage)),
)]
async fn coupons(Caller(edge, context): Caller, parameters: Parameters) -> RouteResult {
    let (before, limit) = parameters.finish_page()?;
    let page = edge.app.queries.coupons(&context, before, limit).await?;
    let now = edge.app.now();
    Done::page(page, |coupon| CouponView::at(now, &coupon))
}
