//! Snapshot of the database: every row that a promise covers, read through a separate connection and not through the
//! service.

mod assets;
mod invoices;

use std::collections::{BTreeMap, BTreeSet};

use handover_events::{EventId, EventType as _, TenantId};
use handover_outbox::ports::{
    Consumed, ConsumedFilter, DeadLetter, DeadLetterFilter, Numbered, OutboxFilter, OutboxRow, StoreError,
    WebhookDelivery,
};
use handover_outbox::webhooks::EndpointDisabled;
use marketplace::ports::{
    BuyerCredit, CreditChange, ListingChange, ListingEntry, MarketStore, MarketView, Notification, OrderSide,
    ShipmentTask,
};
use marketplace_domain::{AggregateType, Order, OrderId, Payment, Product, ProductId, UserId};

pub(super) use assets::Assets;
pub(super) use invoices::InvoiceRows;

/// Maximum number of rows that one query reads.
const PAGE: u32 = 1_000;
const TENANT: TenantId = TenantId::DEFAULT;

/// Every row that a promise covers. Effects on one order are in the sequence in which they were applied.
#[derive(Debug, Clone, Default)]
pub(super) struct DatabaseSnapshot {
    pub(super) orders: BTreeMap<OrderId, Order>,
    pub(super) payments: BTreeMap<OrderId, Vec<Payment>>,
    pub(super) products: BTreeMap<ProductId, Product>,
    /// Outbox rows, sorted by id.
    pub(super) events: Vec<OutboxRow>,
    /// Consume-log records.
    pub(super) consumed: Vec<Consumed>,
    pub(super) listing_changes: Vec<ListingChange>,
    pub(super) shipments: Vec<ShipmentTask>,
    pub(super) notifications: Vec<Notification>,
    pub(super) credit_changes: Vec<CreditChange>,
    /// Current listing of each seller.
    pub(super) listings: BTreeMap<UserId, Vec<ListingEntry>>,
    /// Current credit of each buyer.
    pub(super) credit: BTreeMap<UserId, BuyerCredit>,
    pub(super) dead_letters: Vec<DeadLetter>,
    pub(super) assets: Assets,
    pub(super) invoices: Vec<InvoiceRows>,
    /// Deliveries of events to the receiver of webhooks.
    pub(super) webhooks: Vec<WebhookDelivery>,
}

impl DatabaseSnapshot {
    /// Orders are read by user and by event, so that an order without events and an event without its order are both
    /// detected.
    pub(super) async fn read(store: &MarketStore, users: &[UserId]) -> Result<DatabaseSnapshot, StoreError> {
        let mut view = store.view().await?;
        let view = view.as_mut();
        let mut database = DatabaseSnapshot {
            events: events(view).await?,
            consumed: consumed(view).await?,
            dead_letters: dead_letters(view).await?,
            products: products(view).await?,
            invoices: InvoiceRows::read(view).await?,
            ..DatabaseSnapshot::default()
        };
        for user in users {
            for order in orders(view, *user).await? {
                database.orders.insert(order.id, order);
            }
            database.listings.insert(*user, view.listing_of(TENANT, *user).await?);
            if let Some(credit) = view.credit_of(TENANT, *user).await? {
                database.credit.insert(*user, credit);
            }
        }
        for id in database.announced() {
            if let Some(order) = view.order_by_id(TENANT, id).await? {
                database.orders.insert(id, order);
            }
        }
        let events: Vec<EventId> = database.events.iter().map(|event| event.event_id.clone()).collect();
        database.webhooks = view.outbox_view().webhook_deliveries_of(&events).await?;
        let ids: BTreeSet<OrderId> = database.orders.keys().copied().chain(database.announced()).collect();
        database.assets = Assets::read(view, users, &ids).await?;
        for id in ids {
            database.payments.insert(id, view.payments_of(TENANT, &[id]).await?);
            database.listing_changes.extend(view.listing_changes(TENANT, &[id]).await?);
            database.shipments.extend(view.shipment_tasks(TENANT, &[id]).await?);
            database.notifications.extend(view.notifications_about(TENANT, &[id]).await?);
            database.credit_changes.extend(view.credit_changes(TENANT, &[id]).await?);
        }
        Ok(database)
    }

    /// The events of the market: all but those that webhooks announce about themselves.
    pub(super) fn market_events(&self) -> impl Iterator<Item = &OutboxRow> {
        self.events.iter().filter(|event| event.aggregate.kind != EndpointDisabled::AGGREGATE)
    }

    /// Ids of the orders that have events.
    fn announced(&self) -> BTreeSet<OrderId> {
        let of_orders =
            self.events.iter().filter(|event| event.aggregate.kind == AggregateType::Order.as_str());
        of_orders.filter_map(|event| OrderId::try_from(&event.aggregate.id).ok()).collect()
    }
}

/// Whether a page is the last one.
fn is_last<T>(page: &[T]) -> bool {
    page.len() < PAGE as usize
}

async fn events(view: &mut dyn MarketView) -> Result<Vec<OutboxRow>, StoreError> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = view.outbox_view().outbox_page(&OutboxFilter::default(), before, PAGE).await?;
        let last = is_last(&page);
        before = page.last().map(|row| row.id);
        all.extend(page);
        if last {
            all.reverse();
            return Ok(all);
        }
    }
}

async fn consumed(view: &mut dyn MarketView) -> Result<Vec<Consumed>, StoreError> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = view.outbox_view().consumed_page(&ConsumedFilter::default(), before, PAGE).await?;
        let last = is_last(&page);
        before = page.last().map(|row| row.id);
        all.extend(page.into_iter().map(effect));
        if last {
            return Ok(all);
        }
    }
}

async fn dead_letters(view: &mut dyn MarketView) -> Result<Vec<DeadLetter>, StoreError> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = view.outbox_view().dead_letters_page(&DeadLetterFilter::default(), before, PAGE).await?;
        let last = is_last(&page);
        before = page.last().map(|row| row.id);
        all.extend(page.into_iter().map(effect));
        if last {
            return Ok(all);
        }
    }
}

async fn products(view: &mut dyn MarketView) -> Result<BTreeMap<ProductId, Product>, StoreError> {
    let (mut all, mut before) = (BTreeMap::new(), None);
    loop {
        let page = view.products_page(TENANT, None, before, PAGE).await?;
        let last = is_last(&page);
        before = page.last().map(|product| product.id);
        all.extend(page.into_iter().map(|product| (product.id, product)));
        if last {
            return Ok(all);
        }
    }
}

async fn orders(view: &mut dyn MarketView, buyer: UserId) -> Result<Vec<Order>, StoreError> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = view.orders_page(TENANT, buyer, OrderSide::Buyer, None, before, PAGE).await?;
        let last = is_last(&page);
        before = page.last().map(|order| order.id);
        all.extend(page);
        if last {
            return Ok(all);
        }
    }
}

fn effect<T>(row: Numbered<T>) -> T {
    row.effect
}
