//! What is in the database: every row that a promise is about, read through a reader of its own, behind the service's
//! back.

mod assets;

use std::collections::{BTreeMap, BTreeSet};

use handover_events::TenantId;
use handover_outbox::ports::{
    Consumed, ConsumedFilter, DeadLetter, DeadLetterFilter, Numbered, OutboxFilter, OutboxRow, StoreError,
};
use marketplace::ports::{
    BuyerCredit, CreditChange, ListingChange, ListingEntry, MarketStore, MarketView, Notification, OrderSide,
    ShipmentTask,
};
use marketplace_domain::{AggregateType, Order, OrderId, Payment, Product, ProductId, UserId};

pub(super) use assets::Assets;

/// Rows read at a time.
const PAGE: u32 = 1_000;
/// The marketplace of the demo.
const TENANT: TenantId = TenantId::DEFAULT;

/// Every row that a promise is about.
#[derive(Debug, Clone, Default)]
pub(super) struct Books {
    /// The orders.
    pub(super) orders: BTreeMap<OrderId, Order>,
    /// Their payments.
    pub(super) payments: BTreeMap<OrderId, Vec<Payment>>,
    /// The products.
    pub(super) products: BTreeMap<ProductId, Product>,
    /// The outbox, in the order of its rows.
    pub(super) events: Vec<OutboxRow>,
    /// The consume log.
    pub(super) consumed: Vec<Consumed>,
    /// Changes of listings, those of an order in the order in which they were applied; so are the other effects.
    pub(super) listing_changes: Vec<ListingChange>,
    /// Shipment tasks.
    pub(super) shipments: Vec<ShipmentTask>,
    /// Notifications.
    pub(super) notifications: Vec<Notification>,
    /// Changes of buyers' credit.
    pub(super) credit_changes: Vec<CreditChange>,
    /// What the changes left of each seller's listing.
    pub(super) listings: BTreeMap<UserId, Vec<ListingEntry>>,
    /// What the changes left of each buyer's credit.
    pub(super) credit: BTreeMap<UserId, BuyerCredit>,
    /// The dead letters.
    pub(super) dead_letters: Vec<DeadLetter>,
    /// Assets and refunds.
    pub(super) assets: Assets,
}

impl Books {
    /// Reads everything. An order is found by its users and by its events, so that one without the other shows.
    pub(super) async fn read(store: &MarketStore, users: &[UserId]) -> Result<Books, StoreError> {
        let mut view = store.view().await?;
        let view = view.as_mut();
        let mut books = Books {
            events: events(view).await?,
            consumed: consumed(view).await?,
            dead_letters: dead_letters(view).await?,
            products: products(view).await?,
            ..Books::default()
        };
        for user in users {
            for order in orders(view, *user).await? {
                books.orders.insert(order.id, order);
            }
            books.listings.insert(*user, view.listing_of(TENANT, *user).await?);
            if let Some(credit) = view.credit_of(TENANT, *user).await? {
                books.credit.insert(*user, credit);
            }
        }
        for id in books.announced() {
            if let Some(order) = view.order_by_id(TENANT, id).await? {
                books.orders.insert(id, order);
            }
        }
        let ids: BTreeSet<OrderId> = books.orders.keys().copied().chain(books.announced()).collect();
        books.assets = Assets::read(view, users, &ids).await?;
        for id in ids {
            books.payments.insert(id, view.payments_of(TENANT, id).await?);
            books.listing_changes.extend(view.listing_changes(TENANT, id).await?);
            books.shipments.extend(view.shipment_tasks(TENANT, id).await?);
            books.notifications.extend(view.notifications_about(TENANT, id).await?);
            books.credit_changes.extend(view.credit_changes(TENANT, id).await?);
        }
        Ok(books)
    }

    /// The orders that events are about.
    fn announced(&self) -> BTreeSet<OrderId> {
        let of_orders =
            self.events.iter().filter(|event| event.aggregate.kind == AggregateType::Order.as_str());
        of_orders.filter_map(|event| event.aggregate.id.try_into().ok()).collect()
    }
}

/// Whether a page was the last.
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
