//! The months before the day: orders that were completed in them, so that the day has months to invoice.
//!
//! The orders run through the use cases of the service, with a clock that shows the past. Meanwhile the service has the role
//! `api` alone: a relay would publish the payment deadline of an order, long past, before the order is paid. The service of
//! the day publishes and applies their events like all others.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{TenantId, Trace};
use handover_outbox::ports::Clock;
use handover_runtime::Failure;
use handover_runtime::roles::{Role, Roles};
use handover_runtime::signals::STOP_WITHIN;
use handover_runtime::stores::transactor;
use handover_system::SystemClock;
use marketplace::use_cases::{ListProduct, PlaceOrder, SettlePayment, StartPayment};
use marketplace::{Actor, App, CommandContext, Role as UserRole};
use marketplace_domain::{BillingPeriod, OrderId, PaymentResult, Settlement, Shipment, Title, UserId};
use marketplace_wiring::settings::Config;
use marketplace_wiring::{API, ROLES, Service, Starting};

use super::client::{Api, ApiResponse, acknowledged};
use super::journal::{ClientOrder, Journal, Step};
use super::plan::{AssetCoverage, Deal, Plan};
use super::webhook_receiver::WebhookReceiver;

/// Number of past months.
const MONTHS: usize = 2;
/// Time between the steps of an order: payment, shipment, receipt.
const STEP: TimeDelta = TimeDelta::days(1);

/// What the service of the day finds in its database.
pub(super) struct PastMonths {
    /// The closed months with orders, in chronological order.
    pub(super) months: Vec<BillingPeriod>,
    /// Number of completed orders.
    pub(super) orders: usize,
    /// Id of the operator's webhook endpoint, which receives the events of these months, too.
    pub(super) endpoint: Option<String>,
    /// Time at which the day begins.
    pub(super) ended: DateTime<Utc>,
}

/// Plays the past months in a service of their own, and stops it.
pub(super) async fn play(
    config: &Config,
    plan: &Plan,
    journal: &Journal,
    receiver: &WebhookReceiver,
) -> Result<PastMonths, Failure> {
    let api: Vec<&'static Role<Starting>> = ROLES.iter().filter(|role| role.name == API).collect();
    let service = Service::start(config, &Roles::chosen(&ROLES, &api)).await?;
    let clients = Api::of(&service, plan)?;
    let endpoint = receive_webhooks(&clients, journal, plan.operator, receiver).await;
    drop(clients);
    let ended = service.app().now();
    let months = closed_months(ended);
    let clock = Arc::new(PastClock(Mutex::new(ended)));
    let app = at(service.app(), &clock)?;
    let mut orders = 0;
    for (month, deal) in months.iter().flat_map(|month| plan.past_deals.iter().map(move |deal| (month, deal)))
    {
        let completed_at = month.end() - TimeDelta::hours(1);
        match complete_order(&app, &clock, completed_at, deal, journal).await {
            Ok(_) => orders += 1,
            Err(error) => journal.note(|record| record.unexpected.push(format!("order of {month}: {error}"))),
        }
    }
    service.stop(STOP_WITHIN).await?;
    Ok(PastMonths { months, orders, endpoint, ended })
}

/// The operator creates an endpoint for the receiver. Returns its id.
async fn receive_webhooks(
    api: &Api,
    journal: &Journal,
    operator: UserId,
    receiver: &WebhookReceiver,
) -> Option<String> {
    let created = api.create_endpoint(operator, &receiver.url()).await;
    let text = |response: &ApiResponse, field: &str| {
        response.data.get(field).and_then(|value| value.as_str()).map(str::to_owned)
    };
    match acknowledged("webhook", created) {
        Ok(response) => {
            let is_secret = text(&response, "secret").is_some_and(|secret| receiver.verify_with(&secret));
            if !is_secret {
                journal.note(|record| record.unexpected.push("webhook: no secret".to_owned()));
            }
            text(&response, "endpointId")
        }
        Err(unexpected) => {
            journal.note(|record| record.unexpected.push(unexpected));
            None
        }
    }
}

fn closed_months(now: DateTime<Utc>) -> Vec<BillingPeriod> {
    let current = BillingPeriod::containing(now).ok();
    let past = std::iter::successors(current, |month| month.previous()).skip(1);
    let mut closed: Vec<BillingPeriod> = past.filter(|month| month.closed_at() <= now).take(MONTHS).collect();
    closed.reverse();
    closed
}

/// The application of the service, with this clock.
fn at(app: &App, clock: &Arc<PastClock>) -> Result<App, Failure> {
    let clock: Arc<dyn Clock> = Arc::<PastClock>::clone(clock);
    let tx = transactor(Arc::clone(app.tx.store()), &clock)?;
    Ok(App::new(tx, Arc::clone(&app.outbox.broker), app.rules.as_ref().clone()))
}

/// The buyer orders and pays, the seller ships, and the buyer confirms the receipt at `completed_at`.
async fn complete_order(
    app: &App,
    clock: &PastClock,
    completed_at: DateTime<Utc>,
    deal: &Deal,
    journal: &Journal,
) -> Result<OrderId, Box<dyn Error + Send + Sync>> {
    let (seller, buyer) = (by(deal.seller), by(deal.buyer));
    clock.set(completed_at - STEP * 2);
    let title = Title::try_from(deal.title.clone())?;
    let product = app.ordering.list_product(&seller, ListProduct { title, price: deal.price }).await?;
    let order = app.ordering.place(&buyer, PlaceOrder::of(product.id)).await?;
    let started = app.payments.start(&buyer, StartPayment { order: order.id, method: None }).await?;
    let payment = started.payment;
    let transaction_id = format!("txn-{}", payment.id);
    let report = Settlement { transaction_id, result: PaymentResult::Success, amount: payment.amount };
    // Without a request there is no body of which this is the hash.
    let settled = SettlePayment { payment: payment.id.into(), report, body_hash: String::new() };
    app.payments.settle(&CommandContext { actor: Actor::Gateway, ..buyer.clone() }, settled).await?;
    clock.set(completed_at - STEP);
    let shipment = Shipment::new("SF".to_owned(), format!("T{}", order.id));
    let shipment = shipment.map_err(|(field, error)| format!("{field}: {error}"))?;
    app.ordering.ship(&seller, order.id, shipment).await?;
    clock.set(completed_at);
    app.ordering.complete(&buyer, order.id).await?;
    journal.note(|record| {
        record.products.insert(product.id, deal.seller);
        let completed = ClientOrder {
            product: product.id,
            buyer: deal.buyer,
            seller: deal.seller,
            step: Step::Completed,
            cover: AssetCoverage::Sufficient,
        };
        record.orders.insert(order.id, completed);
    });
    Ok(order.id)
}

fn by(user: UserId) -> CommandContext {
    CommandContext {
        actor: Actor::User { id: user, roles: vec![UserRole::User] },
        tenant: TenantId::DEFAULT,
        trace: Trace::new("past-months"),
        request_id: None,
    }
}

/// A clock that shows a time of the past until it is set to another.
struct PastClock(Mutex<DateTime<Utc>>);

impl PastClock {
    fn set(&self, now: DateTime<Utc>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

#[async_trait]
impl Clock for PastClock {
    fn now(&self) -> DateTime<Utc> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration).await;
    }
}
