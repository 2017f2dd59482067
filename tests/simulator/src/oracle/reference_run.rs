//! The reference run repeats the committed commands of a run; it injects no faults.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use handover_events::{TenantId, Trace};
use handover_memory::{MemoryBroker, SeededRandom, VirtualClock};
use handover_outbox::ports::{Broker, Clock, OutboxRow, StoreError};
use handover_outbox::{Tasks, Transactor, WakeupNotifier, with_tx};
use marketplace::consumer::HandlerContext;
use marketplace::ports::MarketStore;
use marketplace::use_cases::operations::{AssetGrant, IssueCoupon};
use marketplace::use_cases::{
    ListProduct, PlaceOrder, RequestRefund, SettlePayment, SettleRefund, StartPayment, close_overdue_order,
};
use marketplace::{Actor, App, CommandContext, Rules, Settings, service};
use marketplace_domain::{
    CancelReason, Coupon, CouponId, Money, OperationKey, OperationKind, Order, OrderAssets, OrderId,
    OrderStatus, Payment, PaymentId, PaymentMethod, PaymentResult, PaymentStatus, Points, ProductId, Purse,
    RefundCause, RefundId, RefundResult, RefundStatus, Settlement, Shipment,
};
use marketplace_memory::MemoryStore;

use super::{ALL, Evidence, unsettled};
use crate::actors;

/// Payment timeout of the reference run: longer than its commands take.
const PENDING: Duration = Duration::from_secs(30);

/// Error of any command of the reference run.
pub(super) type BoxError = Box<dyn Error>;

/// An order with its tenant.
pub(super) type OrderKey = (TenantId, OrderId);

pub(super) struct ReferenceRun {
    app: App,
    pub(super) evidence: Evidence,
    products: BTreeMap<ProductId, ProductId>,
    /// Orders of the run mapped to those of the reference run.
    pub(super) orders: BTreeMap<OrderKey, OrderKey>,
    /// Coupons of the run mapped to those of the reference run.
    pub(super) coupons: BTreeMap<(TenantId, CouponId), CouponId>,
    /// Payments that wait for the gateway's report. The key is the order in the compared run.
    payments: BTreeMap<OrderKey, Payment>,
}

impl ReferenceRun {
    pub(super) async fn begin(run: &Evidence) -> Result<ReferenceRun, BoxError> {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(run.app.tx.now()));
        let wake = WakeupNotifier::default();
        let store: Arc<MarketStore> = Arc::new(MemoryStore::new(Arc::clone(&clock), wake.clone()));
        let broker: Arc<dyn Broker> = Arc::new(MemoryBroker::new(Arc::clone(&clock)));
        let tx = Transactor::new(Arc::clone(&store), clock, Arc::new(SeededRandom::new(0)), Tasks::default());
        let rules = Rules { pending_timeout: PENDING, ..(*run.app.rules).clone() };
        let app = App::new(tx, Arc::clone(&broker), rules).with_on_failed(run.app.outbox.on_failed());
        service::prepare(&app).await?;
        service::start(&app, &wake, &Settings::default());
        let mut products = BTreeMap::new();
        for listed in run.journal.products() {
            let original = run.store.view().await?.product_by_id(listed.tenant, listed.id).await?;
            let Some(original) = original else { continue };
            let command = ListProduct { title: original.title, price: original.price };
            let seller = actors::by_user(&run.faults, listed.tenant, listed.seller);
            products.insert(listed.id, app.ordering.list_product(&seller, command).await?.id);
        }
        let (journal, faults) = (run.journal.clone(), run.faults.clone());
        let gateway_model = run.gateway_model.clone();
        let evidence = Evidence {
            store,
            broker,
            archive: None,
            app: app.clone(),
            journal,
            gateway_model,
            faults,
            recovered: true,
        };
        let (orders, payments, coupons) = Default::default();
        let mut reference = ReferenceRun { app, evidence, products, orders, coupons, payments };
        reference.repeat_grants(run).await?;
        Ok(reference)
    }

    /// Repeats all grants of the run, before all other commands. No coupon expires.
    async fn repeat_grants(&mut self, run: &Evidence) -> Result<(), BoxError> {
        let mut view = run.store.view().await?;
        for (tenant, user) in
            actors::tenants().into_iter().flat_map(|it| actors::buyers().map(move |user| (it, user)))
        {
            let operator = actors::by_operator(&run.faults, tenant);
            for purse in [Purse::Wallet, Purse::Points] {
                let mut grants: BTreeMap<OperationKey, i64> = BTreeMap::new();
                for entry in view.entries_page(tenant, user, purse, None, ALL).await? {
                    let operation = entry.effect.operation;
                    if matches!(operation.kind, OperationKind::Deposit | OperationKind::Grant) {
                        grants.insert(operation.key, operation.amount);
                    }
                }
                for amount in grants.into_values() {
                    let grant = match purse {
                        Purse::Wallet => {
                            AssetGrant::Deposit(Money::from_minor(amount).expect("a valid amount"))
                        }
                        Purse::Points => AssetGrant::Grant(Points::try_from(amount).expect("a valid number")),
                    };
                    self.app.operations.grant_asset(&operator, user, grant, None).await?;
                }
            }
            for coupon in view.coupons_page(tenant, user, None, ALL).await? {
                let Coupon { discount, min_spend, .. } = coupon;
                let expires_at = self.app.tx.now() + TimeDelta::days(100);
                let command = IssueCoupon { user, discount, min_spend, expires_at, reason: None };
                let same = self.app.operations.issue_coupon(&operator, command).await?;
                self.coupons.insert((tenant, coupon.id), same.id);
            }
        }
        Ok(())
    }

    /// Repeats the command that caused this event. The caller passes the outbox rows by ascending id; in that sequence
    /// every command succeeds.
    pub(super) async fn repeat(&mut self, run: &Evidence, row: &OutboxRow) -> Result<(), BoxError> {
        let tenant = row.aggregate.tenant;
        let by = |id| actors::by_user(&run.faults, tenant, id);
        match row.event_type.as_str() {
            "ORDER_CREATED" => self.place(run, row).await?,
            "ORDER_STATUS_CHANGED" => {
                let Some((_, order)) = self.order(row).await? else { return Ok(()) };
                if row.payload.contains("\"newStatus\":\"shipped\"") {
                    let shipment =
                        Shipment::new("SF".into(), format!("SF{}", order.id)).expect("a valid shipment");
                    self.app.ordering.ship(&by(order.seller), order.id, shipment).await?;
                } else {
                    self.app.ordering.complete(&by(order.buyer), order.id).await?;
                }
            }
            "ORDER_CANCELLED" => {
                let Some((_, order)) = self.order(row).await? else { return Ok(()) };
                let has = |reason: CancelReason| row.payload.contains(&format!("\"reason\":\"{reason}\""));
                if has(CancelReason::Buyer) {
                    self.app.ordering.cancel(&by(order.buyer), order.id).await?;
                } else if has(CancelReason::Seller) {
                    self.app.ordering.cancel(&by(order.seller), order.id).await?;
                } else if has(CancelReason::Timeout) {
                    self.cancel_overdue(tenant, order.id).await?;
                }
                // Only a cancellation by buyer, seller or timeout is repeated: a failed payment cancels the order in
                // the reference run by itself, and runs with a refused lock are not compared.
            }
            "PAYMENT_SUCCEEDED" | "PAYMENT_FAILED" => self.settle(run, row).await?,
            "REFUND_SUCCEEDED" | "REFUND_FAILED" => self.repeat_refund(run, row).await?,
            _ => {}
        }
        Ok(())
    }

    async fn place(&mut self, run: &Evidence, row: &OutboxRow) -> Result<(), BoxError> {
        let order_key = order_key(row);
        let Some(order) = run.store.view().await?.order_by_id(order_key.0, order_key.1).await? else {
            return Ok(());
        };
        let Some(product) = self.products.get(&order.product).copied() else { return Ok(()) };
        let buyer = actors::by_user(&run.faults, order_key.0, order.buyer);
        let coupon = order.assets.coupon.and_then(|used| self.coupons.get(&(order_key.0, used.id)).copied());
        let OrderAssets { wallet, points, .. } = order.assets;
        let command = PlaceOrder { product, coupon, wallet, points };
        let placed = self.app.ordering.place(&buyer, command).await?;
        self.orders.insert(order_key, (order_key.0, placed.id));
        self.start_next(run, order_key).await
    }

    /// Starts the next payment that the order had in the compared run. It starts before its report is repeated, so that
    /// the order can end before the report, as in the compared run.
    async fn start_next(&mut self, run: &Evidence, order_key: OrderKey) -> Result<(), BoxError> {
        let Some((tenant, id)) = self.orders.get(&order_key).copied() else { return Ok(()) };
        let original = run.store.view().await?.payments_of(order_key.0, &[order_key.1]).await?.len();
        let mut view = self.evidence.store.view().await?;
        let copy = view.payments_of(tenant, &[id]).await?.len();
        let order = view.order_by_id(tenant, id).await?.filter(|order| order.status == OrderStatus::Pending);
        drop(view);
        if let Some(order) = order.filter(|order| copy < original && order.payable > Money::ZERO) {
            let payment = self.start(run, &order).await?;
            self.payments.insert(order_key, payment);
        }
        Ok(())
    }

    async fn start(&self, run: &Evidence, order: &Order) -> Result<Payment, BoxError> {
        let buyer = actors::by_user(&run.faults, order.tenant, order.buyer);
        let start = StartPayment { order: order.id, method: Some(PaymentMethod::Card) };
        Ok(self.app.payments.start(&buyer, start).await?.payment)
    }

    /// Waits until each asset lock of this order is acquired or refused, at most 10 s.
    async fn wait_for_locks(&self, (tenant, id): OrderKey) -> Result<(), StoreError> {
        for _ in 0..100 {
            let mut view = self.evidence.store.view().await?;
            let order = view.order_by_id(tenant, id).await?;
            let holds = view.holds_of(tenant, &[id]).await?;
            let named = order.map_or(0, |order| order.assets.named().count());
            if holds.len() >= named {
                break;
            }
            self.evidence.faults.sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn settle(&mut self, run: &Evidence, row: &OutboxRow) -> Result<(), BoxError> {
        let Ok(id) = PaymentId::try_from(&row.aggregate.id) else { return Ok(()) };
        let Some(original) = run.store.view().await?.payment_by_id(id).await? else { return Ok(()) };
        let Some(order) = original.of.order() else { return Ok(()) };
        let order_key = (original.tenant, order);
        let Some(copy) = self.orders.get(&order_key).copied() else { return Ok(()) };
        self.wait_for_locks(copy).await?;
        if original.amount == Money::ZERO {
            let order = self.evidence.store.view().await?.order_by_id(copy.0, copy.1).await?;
            if let Some(order) = order {
                self.start(run, &order).await?;
            }
            return Ok(());
        }
        let Some(payment) = self.payments.remove(&order_key) else { return Ok(()) };
        let result = match original.status {
            PaymentStatus::Success => PaymentResult::Success,
            PaymentStatus::Failed | PaymentStatus::Processing => PaymentResult::Failed,
        };
        let transaction_id = format!("txn-{}", payment.id);
        let report = Settlement { transaction_id, result, amount: payment.amount };
        let gateway = CommandContext {
            actor: Actor::Gateway,
            ..actors::by_user(&run.faults, original.tenant, actors::user(1))
        };
        self.evidence.gateway_model.capture(payment.id, &report.transaction_id, report.amount);
        let command = SettlePayment { payment: payment.id.into(), report, body_hash: String::new() };
        self.app.payments.settle(&gateway, command).await?;
        self.start_next(run, order_key).await
    }

    /// Requests the refund, unless the service did it automatically, and reports its result.
    async fn repeat_refund(&mut self, run: &Evidence, row: &OutboxRow) -> Result<(), BoxError> {
        let Ok(id) = RefundId::try_from(&row.aggregate.id) else { return Ok(()) };
        let Some(original) = run.store.view().await?.refund_by_id(id).await? else { return Ok(()) };
        let Some(order) = original.of.order() else { return Ok(()) };
        let Some((tenant, id)) = self.orders.get(&(original.tenant, order)).copied() else { return Ok(()) };
        let mut view = self.evidence.store.view().await?;
        let Some(order) = view.order_by_id(tenant, id).await? else { return Ok(()) };
        let mut refunds = view.refunds_of(tenant, &[id]).await?;
        drop(view);
        if original.cause != RefundCause::LatePayment {
            let command = RequestRefund { order: id, reason: original.reason, off_shelf: false };
            // Products stay on sale, so that they can be ordered again.
            let party = if original.cause == RefundCause::Seller { order.seller } else { order.buyer };
            let requester = actors::by_user(&run.faults, tenant, party);
            refunds = vec![self.app.payments.request_refund(&requester, command).await?];
        }
        let result = match original.status {
            RefundStatus::Success => RefundResult::Success,
            RefundStatus::Failed | RefundStatus::Processing => RefundResult::Failed,
        };
        for refund in refunds.iter().filter(|refund| refund.status == RefundStatus::Processing) {
            let command = SettleRefund {
                refund: refund.id.into(),
                result,
                transaction_id: None,
                body_hash: String::new(),
            };
            self.app.payments.settle_refund(&actors::by_gateway(&run.faults, tenant), command).await?;
        }
        Ok(())
    }

    /// Cancels an order as if its deadline had passed.
    async fn cancel_overdue(&self, tenant: TenantId, order: OrderId) -> Result<(), BoxError> {
        let late = HandlerContext { pending_timeout: Duration::ZERO, ..self.app.handlers.clone() };
        let trace = Trace { trace_id: "reference-run".to_owned(), traceparent: None };
        let command = close_overdue_order::command(&late, "reference run", tenant, order, trace);
        with_tx(&self.app.tx, command, |unit, command, _| Box::pin(async move { command.run(unit).await }))
            .await?;
        Ok(())
    }

    /// The order of the reference run that corresponds to the order of this event.
    async fn order(&self, row: &OutboxRow) -> Result<Option<(OrderKey, Order)>, StoreError> {
        let Some(copy) = self.orders.get(&order_key(row)).copied() else { return Ok(None) };
        let order = self.evidence.store.view().await?.order_by_id(copy.0, copy.1).await?;
        Ok(order.map(|order| (copy, order)))
    }

    /// Waits until no work is pending, at most four times [`PENDING`].
    pub(super) async fn wait_until_idle(&self) -> Result<(), StoreError> {
        let step = Duration::from_secs(2);
        let mut left = 4 * PENDING;
        while !unsettled(&self.evidence, 1).await?.is_empty() && !left.is_zero() {
            self.evidence.faults.sleep(step).await;
            left = left.saturating_sub(step);
        }
        Ok(())
    }

    pub(super) async fn end(self) {
        self.app.tx.tasks().kill();
        self.app.tx.tasks().ended().await;
    }

    /// Orders of the reference run mapped to those of the run.
    pub(super) fn original_orders(&self) -> BTreeMap<OrderKey, OrderKey> {
        self.orders.iter().map(|(run, reference)| (*reference, *run)).collect()
    }
}

fn order_key(row: &OutboxRow) -> OrderKey {
    let id = OrderId::try_from(&row.aggregate.id).expect("an order has a valid id");
    (row.aggregate.tenant, id)
}
