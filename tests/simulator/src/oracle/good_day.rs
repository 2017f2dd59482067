//! The world in which nothing fails, in which what was committed on a bad day is asked for once more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use handover_events::*;
use handover_memory::{MemoryBroker, SeededChance, VirtualClock};
use handover_outbox::ports::*;
use handover_outbox::*;
use marketplace::ports::*;
use marketplace::use_cases::operations::{Gift, IssueCoupon, give, issue_coupon};
use marketplace::use_cases::*;
use marketplace::*;
use marketplace_domain::*;
use marketplace_memory::MemoryStore;

use super::{ALL, Evidence, unsettled};
use crate::actors;

/// How long orders may stay unpaid on the good day: longer than its commands take.
const PENDING: Duration = Duration::from_secs(30);

/// An order, and where.
pub(super) type At = (TenantId, OrderId);

/// The world in which nothing fails.
pub(super) struct GoodDay {
    app: App,
    pub(super) evidence: Evidence,
    products: BTreeMap<ProductId, ProductId>,
    /// From the orders of the bad day to those of the good one.
    pub(super) orders: BTreeMap<At, At>,
    /// The same for coupons.
    pub(super) coupons: BTreeMap<(TenantId, CouponId), CouponId>,
    /// The payment of each order that waits for its report.
    payments: BTreeMap<At, Payment>,
}

impl GoodDay {
    pub(super) async fn begin(bad: &Evidence) -> Result<GoodDay, UseCaseError> {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(bad.app.now()));
        let wake = Wake::default();
        let store: Arc<MarketStore> = Arc::new(MemoryStore::new(Arc::clone(&clock), wake.clone()));
        let broker: Arc<dyn Broker> = Arc::new(MemoryBroker::new(Arc::clone(&clock)));
        let tx = Transactor {
            store: Arc::clone(&store),
            tasks: Tasks::default(),
            clock,
            chance: Arc::new(SeededChance::new(0)),
            policy: TxPolicy::default(),
        };
        let rules = Rules { pending_timeout: PENDING, ..(*bad.app.rules).clone() };
        let app = App::new(tx, Arc::clone(&broker), rules);
        service::prepare(&app).await?;
        service::start(&app, &wake, service::Roles::ALL, &Settings::default());
        let mut products = BTreeMap::new();
        for listed in bad.journal.products() {
            let there = bad.store.view().await?.product_by_id(listed.tenant, listed.id).await?;
            let Some(there) = there else { continue };
            let command = ListProduct { title: there.title, price: there.price };
            let seller = actors::by_user(&bad.faults, listed.tenant, listed.seller);
            products.insert(listed.id, list_product(&app, &seller, command).await?.id);
        }
        let (journal, faults) = (bad.journal.clone(), bad.faults.clone());
        let bank = bad.bank.clone();
        let evidence = Evidence { store, broker, app: app.clone(), journal, bank, faults, tidied: true };
        let (orders, payments, coupons) = Default::default();
        let mut good = GoodDay { app, evidence, products, orders, coupons, payments };
        good.give(bad).await?;
        Ok(good)
    }

    /// What the buyers were given in the course of the bad day, all of it in the morning. No coupon expires.
    async fn give(&mut self, bad: &Evidence) -> Result<(), UseCaseError> {
        let mut view = bad.store.view().await?;
        for (tenant, user) in
            actors::tenants().into_iter().flat_map(|it| actors::buyers().map(move |user| (it, user)))
        {
            let operator = actors::by_operator(&bad.faults, tenant);
            for purse in [Purse::Wallet, Purse::Points] {
                let mut gifts: BTreeMap<OperationKey, i64> = BTreeMap::new();
                for entry in view.entries_page(tenant, user, purse, None, ALL).await? {
                    let operation = entry.effect.operation;
                    if matches!(operation.kind, OperationKind::Deposit | OperationKind::Grant) {
                        gifts.insert(operation.key, operation.amount);
                    }
                }
                for amount in gifts.into_values() {
                    let gift = match purse {
                        Purse::Wallet => Gift::Deposit(Money::from_minor(amount).expect("a legal amount")),
                        Purse::Points => Gift::Grant(Points::try_from(amount).expect("a legal number")),
                    };
                    give(&self.app, &operator, user, gift, None).await?;
                }
            }
            for coupon in view.coupons_page(tenant, user, None, ALL).await? {
                let Coupon { discount, min_spend, .. } = coupon;
                let expires_at = self.app.now() + TimeDelta::days(100);
                let command = IssueCoupon { user, discount, min_spend, expires_at, reason: None };
                let same = issue_coupon(&self.app, &operator, command).await?;
                self.coupons.insert((tenant, coupon.id), same.id);
            }
        }
        Ok(())
    }

    /// Asks for what this event of the bad day announces. The order of rows is one in which all of it can happen.
    pub(super) async fn repeat(&mut self, bad: &Evidence, row: &OutboxRow) -> Result<(), UseCaseError> {
        let tenant = row.aggregate.tenant;
        let by = |id| actors::by_user(&bad.faults, tenant, id);
        match row.event_type.parse::<EventType>() {
            Ok(EventType::OrderCreated) => self.place(bad, row).await?,
            Ok(EventType::OrderStatusChanged) => {
                let Some((_, order)) = self.order(row).await? else { return Ok(()) };
                if row.payload.contains("\"newStatus\":\"shipped\"") {
                    let shipment =
                        Shipment::new("SF".into(), format!("SF{}", order.id)).expect("a legal shipment");
                    ship_order(&self.app, &by(order.seller), order.id, shipment).await?;
                } else {
                    complete_order(&self.app, &by(order.buyer), order.id).await?;
                }
            }
            Ok(EventType::OrderCancelled) => {
                let Some((_, order)) = self.order(row).await? else { return Ok(()) };
                let has = |reason: CancelReason| row.payload.contains(&format!("\"reason\":\"{reason}\""));
                if has(CancelReason::Buyer) {
                    cancel_order(&self.app, &by(order.buyer), order.id).await?;
                } else if has(CancelReason::Timeout) {
                    self.close(tenant, order.id).await?;
                }
                // The failed payment closes its order here as well.
            }
            Ok(EventType::PaymentSucceeded | EventType::PaymentFailed) => self.settle(bad, row).await?,
            Ok(EventType::RefundSucceeded | EventType::RefundFailed) => self.pay_back(bad, row).await?,
            Ok(
                EventType::OrderPaid
                | EventType::OrderTimeout
                | EventType::OrderRefunded
                | EventType::InvoiceGenerated,
            )
            | Err(_) => {}
        }
        Ok(())
    }

    async fn place(&mut self, bad: &Evidence, row: &OutboxRow) -> Result<(), UseCaseError> {
        let at = at(row);
        let Some(order) = bad.store.view().await?.order_by_id(at.0, at.1).await? else { return Ok(()) };
        let Some(product) = self.products.get(&order.product).copied() else { return Ok(()) };
        let buyer = actors::by_user(&bad.faults, at.0, order.buyer);
        let coupon = order.assets.coupon.and_then(|used| self.coupons.get(&(at.0, used.id)).copied());
        let OrderAssets { wallet, points, .. } = order.assets;
        let command = PlaceOrder { product, coupon, wallet, points };
        let placed = place_order(&self.app, &buyer, command).await?;
        self.orders.insert(at, (at.0, placed.id));
        self.start_next(bad, at).await
    }

    /// Starts the next payment that the order had on the bad day, so that its report may also come too late.
    async fn start_next(&mut self, bad: &Evidence, at: At) -> Result<(), UseCaseError> {
        let Some((tenant, id)) = self.orders.get(&at).copied() else { return Ok(()) };
        let there = bad.store.view().await?.payments_of(at.0, at.1).await?.len();
        let mut view = self.evidence.store.view().await?;
        let here = view.payments_of(tenant, id).await?.len();
        let order = view.order_by_id(tenant, id).await?.filter(|order| order.status == OrderStatus::Pending);
        drop(view);
        if let Some(order) = order.filter(|order| here < there && order.payable > Money::ZERO) {
            let payment = self.start(bad, &order).await?;
            self.payments.insert(at, payment);
        }
        Ok(())
    }

    async fn start(&self, bad: &Evidence, order: &Order) -> Result<Payment, UseCaseError> {
        let buyer = actors::by_user(&bad.faults, order.tenant, order.buyer);
        let start = StartPayment { order: order.id, method: "card".into() };
        start_payment(&self.app, &buyer, start).await
    }

    /// Until the assets of this order are locked, or will not be.
    async fn locked(&self, (tenant, id): At) -> Result<(), StoreError> {
        for _ in 0..100 {
            let mut view = self.evidence.store.view().await?;
            let order = view.order_by_id(tenant, id).await?;
            let holds = view.holds_of(tenant, id).await?;
            let named = order.map_or(0, |order| order.assets.named().count());
            if holds.len() >= named {
                break;
            }
            self.evidence.faults.sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn settle(&mut self, bad: &Evidence, row: &OutboxRow) -> Result<(), UseCaseError> {
        let Ok(id) = PaymentId::try_from(row.aggregate.id) else { return Ok(()) };
        let Some(there) = bad.store.view().await?.payment_by_id(id).await? else { return Ok(()) };
        let at = (there.tenant, there.order);
        let Some(here) = self.orders.get(&at).copied() else { return Ok(()) };
        self.locked(here).await?;
        if there.amount == Money::ZERO {
            let order = self.evidence.store.view().await?.order_by_id(here.0, here.1).await?;
            if let Some(order) = order {
                self.start(bad, &order).await?;
            }
            return Ok(());
        }
        let Some(payment) = self.payments.remove(&at) else { return Ok(()) };
        let result = match there.status {
            PaymentStatus::Success => PaymentResult::Success,
            PaymentStatus::Failed | PaymentStatus::Processing => PaymentResult::Failed,
        };
        let transaction_id = format!("txn-{}", payment.id);
        let report = Settlement { transaction_id, result, amount: payment.amount };
        let gateway = CommandContext {
            actor: Actor::Gateway,
            ..actors::by_user(&bad.faults, there.tenant, actors::user(1))
        };
        settle_payment(&self.app, &gateway, SettlePayment { payment: payment.id, report }).await?;
        self.start_next(bad, at).await
    }

    /// Begins the refund if it was begun by somebody, and reports it.
    async fn pay_back(&mut self, bad: &Evidence, row: &OutboxRow) -> Result<(), UseCaseError> {
        let Ok(id) = RefundId::try_from(row.aggregate.id) else { return Ok(()) };
        let Some(there) = bad.store.view().await?.refund_by_id(id).await? else { return Ok(()) };
        let Some((tenant, id)) = self.orders.get(&(there.tenant, there.order)).copied() else {
            return Ok(());
        };
        let mut view = self.evidence.store.view().await?;
        let Some(order) = view.order_by_id(tenant, id).await? else { return Ok(()) };
        let mut refunds = view.refunds_of(tenant, id).await?;
        drop(view);
        if there.cause != RefundCause::LatePayment {
            let command = RequestRefund { order: id, reason: there.reason };
            let buyer = actors::by_user(&bad.faults, tenant, order.buyer);
            refunds = vec![request_refund(&self.app, &buyer, command).await?];
        }
        let result = match there.status {
            RefundStatus::Success => RefundResult::Success,
            RefundStatus::Failed | RefundStatus::Processing => RefundResult::Failed,
        };
        for refund in refunds.iter().filter(|refund| refund.status == RefundStatus::Processing) {
            let command = SettleRefund { refund: refund.id, result };
            settle_refund(&self.app, &actors::by_gateway(&bad.faults, tenant), command).await?;
        }
        Ok(())
    }

    /// Closes an order as if its deadline had passed.
    async fn close(&self, tenant: TenantId, order: OrderId) -> Result<(), UseCaseError> {
        let rules = Rules { pending_timeout: Duration::ZERO, ..(*self.app.rules).clone() };
        let late = App { rules: Arc::new(rules), ..self.app.clone() };
        let trace = Trace { trace_id: "a-good-day".to_owned(), traceparent: None };
        let command = close_overdue_order::command(&late, "a good day", tenant, order, trace);
        with_tx(&self.app.tx, move |unit, _| {
            let command = command.clone();
            Box::pin(async move { command.run(unit).await.map(|_| ()) })
        })
        .await
    }

    /// The order of the good day that this event of the bad one is about.
    async fn order(&self, row: &OutboxRow) -> Result<Option<(At, Order)>, StoreError> {
        let Some(here) = self.orders.get(&at(row)).copied() else { return Ok(None) };
        let order = self.evidence.store.view().await?.order_by_id(here.0, here.1).await?;
        Ok(order.map(|order| (here, order)))
    }

    /// Until all is quiet, and the last deadline has passed.
    pub(super) async fn rest(&self) -> Result<(), StoreError> {
        let step = Duration::from_secs(2);
        let mut left = 4 * PENDING;
        while !unsettled(&self.evidence, 1).await?.is_empty() && !left.is_zero() {
            self.evidence.faults.sleep(step).await;
            left = left.saturating_sub(step);
        }
        Ok(())
    }

    /// Ends its world.
    pub(super) async fn end(self) {
        self.app.tx.tasks.kill();
        self.app.tx.tasks.ended().await;
    }

    /// The orders of the bad day by those of the good one.
    pub(super) fn names(&self) -> BTreeMap<At, At> {
        self.orders.iter().map(|(bad, good)| (*good, *bad)).collect()
    }
}

fn at(row: &OutboxRow) -> At {
    let id = OrderId::try_from(row.aggregate.id).expect("an order has a legal id");
    (row.aggregate.tenant, id)
}
