//! Buyers and sellers: they list, buy, pay, ship, complete and cancel, some hang up, and remember what they were told.

use std::sync::{Arc, Mutex, PoisonError};

use handover_application::use_cases::*;
use handover_application::{Actor, App, CommandContext, Role, Trace};
use handover_domain::*;

use super::faults::Faults;

/// What a client was told: it must be true for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    Placed(OrderId),
    Reached(OrderId, OrderStatus),
    Paid(PaymentId),
}

/// What all clients share.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    told: Vec<Told>,
    orders: Vec<OrderId>,
    products: Vec<ProductId>,
}

impl Journal {
    pub fn told(&self) -> Vec<Told> {
        self.book().told.clone()
    }

    pub fn add_product(&self, id: ProductId) {
        self.book().products.push(id);
    }

    pub fn products(&self) -> Vec<ProductId> {
        self.book().products.clone()
    }

    fn orders(&self) -> Vec<OrderId> {
        self.book().orders.clone()
    }

    fn tell(&self, faults: &Faults, told: Told) {
        faults.note(|| format!("{told:?}"));
        let mut book = self.book();
        if let Told::Placed(id) = &told {
            book.orders.push(*id);
        }
        book.told.push(told);
    }

    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn user(number: i64) -> UserId {
    UserId::try_from(number).expect("a small positive number is an id")
}

pub fn context(faults: &Faults, user: UserId) -> CommandContext {
    CommandContext {
        actor: Actor::User { id: user, roles: vec![Role::User] },
        tenant: TenantId::DEFAULT,
        trace: Trace { trace_id: format!("sim-{:x}", faults.dice.next()), traceparent: None },
        idempotency: None,
    }
}

/// One thing a client does. What it was refused it forgets; what it was promised it writes down.
pub async fn act(app: &App, faults: &Faults, journal: &Journal) {
    let patience = if faults.strikes(faults.rates.hang_up) {
        faults.dice.millis(1..60)
    } else {
        std::time::Duration::from_secs(30)
    };
    // A client that hangs up learns nothing, whatever has happened.
    let _ = tokio::time::timeout(patience, act_once(app, faults, journal)).await;
}

async fn act_once(app: &App, faults: &Faults, journal: &Journal) {
    let dice = &faults.dice;
    let orders = journal.orders();
    if orders.is_empty() || dice.permille(350) {
        let Some(product) = dice.pick(&journal.products()).copied() else { return };
        let buyer = user(100 + i64::try_from(dice.below(4)).unwrap_or(0));
        if let Ok(order) = place_order(app, &context(faults, buyer), PlaceOrder { product }).await {
            journal.tell(faults, Told::Placed(order.id));
        }
        return;
    }
    let Some(id) = dice.pick(&orders).copied() else { return };
    let Ok(Some(order)) = look(app, id).await else { return };
    let reached = match dice.below(10) {
        0..=4 => return pay(app, faults, journal, &order).await,
        5 | 6 => {
            let shipment = Shipment::new("SF".into(), format!("SF{id}")).expect("a legal shipment");
            ship_order(app, &context(faults, order.seller), id, shipment).await
        }
        7 | 8 => complete_order(app, &context(faults, order.buyer), id).await,
        _ => cancel_order(app, &context(faults, order.buyer), id).await,
    };
    if let Ok(order) = reached {
        journal.tell(faults, Told::Reached(id, order.status));
    }
}

async fn pay(app: &App, faults: &Faults, journal: &Journal, order: &Order) {
    let start = StartPayment { order: order.id, method: "card".into() };
    let Ok(payment) = start_payment(app, &context(faults, order.buyer), start).await else { return };
    let result = if faults.dice.permille(150) { PaymentResult::Failed } else { PaymentResult::Success };
    let report = Settlement { transaction_id: format!("txn-{}", payment.id), result, amount: payment.amount };
    let gateway = CommandContext { actor: Actor::Gateway, ..context(faults, order.buyer) };
    let command = SettlePayment { payment: payment.id, report };
    // The gateway reports until it is heard, and sometimes once more.
    for _ in 0..1 + faults.dice.below(2) {
        if let Ok(payment) = settle_payment(app, &gateway, command.clone()).await
            && payment.status == PaymentStatus::Success
        {
            journal.tell(faults, Told::Paid(payment.id));
        }
    }
}

async fn look(app: &App, id: OrderId) -> Result<Option<Order>, handover_application::ports::StoreError> {
    app.view().await?.order_by_id(TenantId::DEFAULT, id).await
}
