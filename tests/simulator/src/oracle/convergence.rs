//! The same day without trouble: what was committed on the bad one is asked for once more, one thing after the other, in a
//! world where nothing fails. Both must end the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use handover_application::ports::*;
use handover_application::use_cases::*;
use handover_application::*;
use handover_domain::*;
use handover_memory::{MemoryBroker, MemoryStore, SeededChance, VirtualClock};

use super::{Evidence, unsettled};
use crate::actors;

/// How long orders may stay unpaid on the good day: longer than its commands take.
const PENDING: Duration = Duration::from_secs(30);

/// What does not end as it does on a good day.
pub(crate) async fn differences(evidence: &Evidence) -> Result<Vec<String>, UseCaseError> {
    let discarded =
        DeadLetterFilter { status: Some(DeadLetterStatus::Discarded), ..DeadLetterFilter::default() };
    if !evidence.store.view().await?.dead_letters_page(&discarded, None, 1).await?.is_empty() {
        // What an operator gave up has no effect on purpose.
        return Ok(Vec::new());
    }
    let mut good = GoodDay::begin(evidence).await?;
    for row in evidence.rows().await? {
        good.repeat(evidence, &row).await?;
    }
    good.rest().await?;
    let mut differences = Vec::new();
    for (bad, same) in &good.orders {
        let expected = seen(&good.evidence, *same, &good.names()).await?;
        let ended = seen(evidence, *bad, &BTreeMap::new()).await?;
        if ended != expected {
            differences.push(format!("order {} ends as {ended:?}, on a good day as {expected:?}", bad.1));
        }
    }
    if differences.is_empty() && !good.orders.is_empty() {
        evidence.faults.cover(|coverage| coverage.place("an end as on a good day"));
    }
    good.app.tx.tasks.kill();
    good.app.tx.tasks.ended().await;
    Ok(differences)
}

/// An order, and where.
type At = (TenantId, OrderId);

/// The world in which nothing fails.
struct GoodDay {
    app: App,
    evidence: Evidence,
    products: BTreeMap<ProductId, ProductId>,
    /// From the orders of the bad day to those of the good one.
    orders: BTreeMap<At, At>,
    /// The payment of each order that waits for its report.
    payments: BTreeMap<At, Payment>,
}

impl GoodDay {
    async fn begin(evidence: &Evidence) -> Result<GoodDay, UseCaseError> {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(evidence.app.now()));
        let wake = Wake::default();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::clone(&clock), wake.clone()));
        let broker: Arc<dyn Broker> = Arc::new(MemoryBroker::new(Arc::clone(&clock)));
        let tx = Transactor {
            store: Arc::clone(&store),
            tasks: Tasks::default(),
            clock,
            chance: Arc::new(SeededChance::new(0)),
            policy: TxPolicy::default(),
        };
        let rules = Rules { pending_timeout: PENDING, ..(*evidence.app.rules).clone() };
        let app = App::new(tx, Arc::clone(&broker), rules);
        runtime::prepare(&app).await?;
        runtime::start(&app, &wake, runtime::Roles::ALL, &Settings::default());
        let mut products = BTreeMap::new();
        for listed in evidence.journal.products() {
            let there = evidence.store.view().await?.product_by_id(listed.tenant, listed.id).await?;
            let Some(there) = there else { continue };
            let command = ListProduct { title: there.title, price: there.price };
            let seller = actors::by_user(&evidence.faults, listed.tenant, listed.seller);
            products.insert(listed.id, list_product(&app, &seller, command).await?.id);
        }
        let (journal, faults) = (evidence.journal.clone(), evidence.faults.clone());
        let evidence = Evidence { store, broker, app: app.clone(), journal, faults, tidied: true };
        Ok(GoodDay { app, evidence, products, orders: BTreeMap::new(), payments: BTreeMap::new() })
    }

    /// Asks for what this event of the bad day announces. The order of rows is one in which all of it can happen.
    async fn repeat(&mut self, bad: &Evidence, row: &OutboxRow) -> Result<(), UseCaseError> {
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
                if row.payload.contains("\"reason\":\"buyer\"") {
                    cancel_order(&self.app, &by(order.buyer), order.id).await?;
                } else {
                    self.close(tenant, order.id).await?;
                }
            }
            Ok(EventType::PaymentSucceeded | EventType::PaymentFailed) => self.settle(bad, row).await?,
            Ok(
                EventType::OrderPaid
                | EventType::OrderTimeout
                | EventType::OrderRefunded
                | EventType::RefundSucceeded
                | EventType::RefundFailed
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
        let placed = place_order(&self.app, &buyer, PlaceOrder::of(product)).await?;
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
        if let Some(order) = order.filter(|_| here < there) {
            let buyer = actors::by_user(&bad.faults, tenant, order.buyer);
            let start = StartPayment { order: id, method: "card".into() };
            self.payments.insert(at, start_payment(&self.app, &buyer, start).await?);
        }
        Ok(())
    }

    async fn settle(&mut self, bad: &Evidence, row: &OutboxRow) -> Result<(), UseCaseError> {
        let Ok(id) = PaymentId::try_from(row.aggregate.id) else { return Ok(()) };
        let Some(there) = bad.store.view().await?.payment_by_id(id).await? else { return Ok(()) };
        let at = (there.tenant, there.order);
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

    /// Closes an order as if its deadline had passed.
    async fn close(&self, tenant: TenantId, order: OrderId) -> Result<(), UseCaseError> {
        let rules = Rules { pending_timeout: Duration::ZERO, ..(*self.app.rules).clone() };
        let late = App { rules: Arc::new(rules), ..self.app.clone() };
        let command = close_overdue_order::command(&late, "a good day", tenant, order, "a-good-day");
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
    async fn rest(&self) -> Result<(), StoreError> {
        let step = Duration::from_secs(2);
        let mut left = 4 * PENDING;
        while !unsettled(&self.evidence, 1).await?.is_empty() && !left.is_zero() {
            self.evidence.faults.sleep(step).await;
            left = left.saturating_sub(step);
        }
        Ok(())
    }

    /// The orders of the bad day by those of the good one.
    fn names(&self) -> BTreeMap<At, At> {
        self.orders.iter().map(|(bad, good)| (*good, *bad)).collect()
    }
}

fn at(row: &OutboxRow) -> At {
    let id = OrderId::try_from(row.aggregate.id).expect("an order has a legal id");
    (row.aggregate.tenant, id)
}

/// What everybody who has to do with an order finds in the end.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: OrderStatus,
    is_sold: bool,
    payments: Vec<(PaymentStatus, bool)>,
    told: Vec<String>,
    shipments: usize,
    counted: Vec<String>,
    /// Who has its product in the seller's listing: this order, another one, or nobody.
    taken_by: Option<At>,
}

/// `names` gives the orders of a good day the names that they have on the bad one.
async fn seen(evidence: &Evidence, (tenant, id): At, names: &BTreeMap<At, At>) -> Result<Seen, UseCaseError> {
    let mut view = evidence.store.view().await?;
    let order = view.order_by_id(tenant, id).await?.ok_or(UseCaseError::NotFound { what: "order" })?;
    let product = view.product_by_id(tenant, order.product).await?;
    let payments = view.payments_of(tenant, id).await?;
    let mut payments: Vec<_> = payments.iter().map(|it| (it.status, it.refund_due)).collect();
    // One that was never reported is closed with its order on neither day, and was not asked for on the good one.
    payments.retain(|(status, _)| *status != PaymentStatus::Processing);
    payments.sort_by_key(|(status, due)| (status.as_str(), *due));
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let told = view.notifications_about(tenant, id).await?.into_iter();
    let told = told.map(|it| format!("{:?} {} {} {}", it.side, it.recipient, it.old_status, it.new_status));
    let counted = view.credit_changes(tenant, id).await?.into_iter();
    let counted = counted.map(|it| format!("{} {:?}", it.buyer, it.step));
    let listing = view.listing_of(tenant, order.seller).await?;
    let entry = listing.iter().find(|entry| entry.product == order.product);
    let taken_by = entry.and_then(|entry| entry.taken_by).map(|order| (tenant, order));
    Ok(Seen {
        status: order.status,
        is_sold: product.is_some_and(|product| product.status == ProductStatus::Sold),
        payments,
        told: sorted(told.collect()),
        shipments: view.shipment_tasks(tenant, id).await?.len(),
        counted: sorted(counted.collect()),
        taken_by: taken_by.map(|at| names.get(&at).copied().unwrap_or(at)),
    })
}
