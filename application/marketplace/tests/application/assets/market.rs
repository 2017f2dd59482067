//! A marketplace whose buyer can own assets, with its relay and consumers.

use handover_outbox::consumers::{AnyHandler, Event, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::*;
use marketplace::ports::*;
use marketplace::use_cases::operations::*;
use marketplace::use_cases::*;
use marketplace::*;
use marketplace_domain::*;

use crate::support::{BUYER, Process, SELLER, TENANT, World, by, gateway, millis, money, pass, secs};

pub(crate) const OPERATOR: i64 = 9;

/// The tenant of the market.
pub(crate) const fn tenant() -> handover_events::TenantId {
    TENANT
}

pub(crate) fn operator() -> CommandContext {
    let actor = Actor::User { id: OPERATOR.try_into().unwrap(), roles: vec![Role::User, Role::Operator] };
    CommandContext { actor, ..by(OPERATOR) }
}

pub(crate) fn buyer() -> UserId {
    BUYER.try_into().unwrap()
}

pub(crate) fn points(number: i64) -> Points {
    number.try_into().unwrap()
}

/// A report of the gateway without a transaction id.
pub(crate) fn refund_report(refund: RefundId, result: RefundResult) -> SettleRefund {
    SettleRefund { refund: refund.into(), result, transaction_id: None, body_hash: String::new() }
}

/// Assets that an order uses in addition to money.
#[derive(Clone, Copy, Default)]
pub(crate) struct SpentAssets {
    pub(crate) coupon: Option<CouponId>,
    pub(crate) wallet: i64,
    pub(crate) points: i64,
}

pub(crate) struct Market {
    pub(crate) world: World,
    pub(crate) process: Process,
}

impl Market {
    /// A marketplace without a running relay or consumer.
    pub(crate) async fn new() -> Market {
        let world = World::with_timeout(secs(900)).await;
        let process = world.process();
        Market { world, process }
    }

    /// A marketplace with a running relay and running consumers.
    pub(crate) async fn running() -> Market {
        let market = Market::new().await;
        market.start().await;
        market
    }

    pub(crate) async fn start(&self) {
        self.process.start_relay("relay", RelaySettings::default());
        for subscriber in self.app().subscribers() {
            self.process.start_consumer(&subscriber, ConsumerSettings::default()).await;
        }
    }

    pub(crate) fn app(&self) -> &App {
        &self.process.app
    }

    pub(crate) async fn deposit(&self, minor: i64) {
        self.app()
            .operations
            .grant_asset(&operator(), buyer(), AssetGrant::Deposit(money(minor)), None)
            .await
            .unwrap();
    }

    pub(crate) async fn grant(&self, number: i64) {
        self.app()
            .operations
            .grant_asset(&operator(), buyer(), AssetGrant::Grant(points(number)), None)
            .await
            .unwrap();
    }

    pub(crate) async fn coupon(&self, discount: i64) -> CouponId {
        let command = IssueCoupon {
            user: buyer(),
            discount: money(discount),
            min_spend: money(1_000),
            expires_at: self.world.now() + chrono::TimeDelta::days(30),
            reason: None,
        };
        self.app().operations.issue_coupon(&operator(), command).await.unwrap().id
    }

    pub(crate) async fn try_order(&self, assets: SpentAssets) -> Result<Order, UseCaseError<OrderRefusal>> {
        let product = self.process.listed().await.id;
        let command = PlaceOrder {
            product,
            coupon: assets.coupon,
            wallet: money(assets.wallet),
            points: points(assets.points),
        };
        self.app().ordering.place(&by(BUYER), command).await
    }

    pub(crate) async fn order(&self, assets: SpentAssets) -> Order {
        self.try_order(assets).await.unwrap()
    }

    /// Places an order and lets the consumers lock its assets. Returns the order as it was placed.
    pub(crate) async fn locked(&self, assets: SpentAssets) -> Order {
        let order = self.order(assets).await;
        self.process_pending().await;
        order
    }

    pub(crate) async fn paid(&self, assets: SpentAssets) -> Order {
        let order = self.locked(assets).await;
        let payment = self.process.started_payment(order.id).await;
        if payment.status == PaymentStatus::Processing {
            self.process.settle(&payment, PaymentResult::Success).await.unwrap();
        }
        self.process_pending().await;
        self.world.order(order.id).await
    }

    pub(crate) async fn refund(&self, order: &Order) -> Refund {
        let command = RequestRefund { order: order.id, reason: "too small".into(), off_shelf: false };
        self.app().payments.request_refund(&by(BUYER), command).await.unwrap()
    }

    pub(crate) async fn report(
        &self,
        refund: &Refund,
        result: RefundResult,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        self.app().payments.settle_refund(&gateway(), refund_report(refund.id, result)).await
    }

    /// Waits 500 ms. In this time, relay and consumers process all pending messages.
    pub(crate) async fn process_pending(&self) {
        pass(millis(500)).await;
    }

    /// Returns the available, frozen and owed amount of a purse.
    pub(crate) async fn purse(&self, purse: Purse) -> (i64, i64, i64) {
        let balance = self.world.view().await.balance_of(TENANT, buyer(), purse).await.unwrap();
        balance.map_or((0, 0, 0), |balance| (balance.available, balance.frozen, balance.debt))
    }

    pub(crate) async fn hold(&self, order: OrderId, asset: Asset) -> Option<Hold> {
        let holds = self.world.view().await.holds_of(TENANT, &[order]).await.unwrap();
        holds.into_iter().find(|hold| hold.asset == asset)
    }

    pub(crate) async fn hold_status(&self, order: OrderId, asset: Asset) -> Option<HoldStatus> {
        self.hold(order, asset).await.map(|hold| hold.status)
    }

    pub(crate) async fn coupon_status(&self, id: CouponId) -> CouponStatus {
        self.world.view().await.coupon_by_id(TENANT, id).await.unwrap().unwrap().status
    }

    /// Keys of the operations of an order, in the sequence in which they were posted.
    pub(crate) async fn keys(&self, order: OrderId) -> Vec<String> {
        let operations = self.world.view().await.operations_of(TENANT, &[order]).await.unwrap();
        operations.into_iter().map(|operation| operation.key.to_string()).collect()
    }

    /// Checks that the ledger has no inconsistency, and that the accounts of wallet and of points each sum to zero.
    pub(crate) async fn assert_ledger_balanced(&self) {
        let mut view = self.world.view().await;
        assert_eq!(ledger_inconsistencies(view.as_mut(), None, 10).await.unwrap(), []);
        for asset in [Asset::Wallet, Asset::Points] {
            let totals = view.account_totals(None).await.unwrap();
            let sum: i64 = totals.iter().filter(|it| it.account.asset() == asset).map(|it| it.total).sum();
            assert_eq!(sum, 0, "{asset}: {totals:?}");
        }
    }

    pub(crate) async fn total(&self, account: Account) -> i64 {
        let totals = self.world.view().await.account_totals(Some(TENANT)).await.unwrap();
        totals.into_iter().find(|total| total.account == account).map_or(0, |total| total.total)
    }

    pub(crate) fn asset_consumer(&self, asset: Asset) -> Subscriber<Work> {
        let name = asset.as_str();
        self.app().subscribers().into_iter().find(|it| it.name() == name).unwrap()
    }

    /// Applies one event with a handler in one unit of work, without the order gate.
    pub(crate) async fn apply_event(
        &self,
        handler: &AnyHandler<Work>,
        row: &OutboxRow,
    ) -> Result<String, String> {
        let mut unit = self.world.store.begin().await.unwrap();
        let event = Event::of(row).unwrap();
        let applied = handler.apply(unit.as_mut(), &[event]).await.map_err(|error| error.to_string())?;
        unit.commit().await.unwrap();
        Ok(applied.into_iter().filter_map(|it| it.result).collect())
    }

    pub(crate) fn seller() -> CommandContext {
        by(SELLER)
    }
}
