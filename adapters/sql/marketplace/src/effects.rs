//! Effects of consumers: listing changes, listings, shipment tasks.

use std::collections::{BTreeMap, BTreeSet};

use crate::of_orders::OfOrders;
use crate::session::MarketSession;
use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{Numbered, StoreError};
use handover_sql::{Dialect, Fields, LookUp, MAX_ROWS, Row, Table, Value, padded, table, values};
use marketplace::ports::{
    END_OF_IDS, EffectKind, EffectOfFact, EffectQueries, EffectRepo, ListedShipment, ListingChange,
    ListingChangeKind, ListingEntry, NewShipmentTask, OrderSide, SHIPMENT, ShipmentTask,
};
use marketplace_domain::{OrderId, OrderStatus, ProductId, ShipmentState, UserId};

table! {
    ChangeTable("listing_changes" by "id"), read row as ListingChange, write change as &'a ListingChange;
    insert {
        tenant: id("tenant_id" = change.tenant.get()),
        seller: id("seller_id" = change.seller.get()),
        product: id("product_id" = change.product.get()),
        order: id("order_id" = change.order.get()),
        aggregate_seq: int("aggregate_seq" = change.aggregate_seq),
        kind: (change_kind(row))("kind" = change.kind.as_str()),
        event_id: named("event_id" = &change.event_id),
        at: time("create_time" = change.at),
    }
}

table! {
    ShipmentTable("shipments" by "id"), read row as ShipmentTask, write task as &'a NewShipmentTask;
    insert {
        tenant: id("tenant_id" = task.tenant.get()),
        order: id("order_id" = task.order.get()),
        seller: id("seller_id" = task.seller.get()),
        buyer: id("buyer_id" = task.buyer.get()),
        aggregate_seq: int("aggregate_seq" = task.aggregate_seq),
        event_id: named("event_id" = &task.event_id),
        at: time("create_time" = task.at),
    }
}

const CHANGE: &str = ChangeTable::COLUMNS;
const TASK: &str = ShipmentTable::COLUMNS;
const ENTRY: &str = ListingTable::COLUMNS;

/// Key of a listing.
type Listing = (TenantId, UserId, ProductId);

table! {
    ListingTable("listings" by "product_id"),
    read row as ListingEntry, write new as (&'a Listing, &'a ListingEntry);
    insert {
        product: (row.id("product_id"))(
            "tenant_id" = new.0.0.get(),
            "seller_id" = new.0.1.get(),
            "product_id" = new.0.2.get()
        ),
    }
    update {
        taken_by: opt_id("taken_by" = new.1.taken_by.map(OrderId::get)),
        event_id: named("event_id" = &new.1.event_id),
        update_time: time("update_time" = new.1.update_time),
    }
}

/// The columns of the natural key of an effect, without tenant and order.
const fn fact_columns(kind: EffectKind) -> &'static [&'static str] {
    match kind {
        EffectKind::ListingChange => &["kind"],
        EffectKind::Shipment => &[],
        EffectKind::Notification => &["new_status", "side"],
        EffectKind::CreditChange => &["step"],
    }
}

fn effect_of_fact(kind: EffectKind, row: &Row) -> Result<EffectOfFact, StoreError> {
    let row = row.of(kind.table(), "id");
    let columns = fact_columns(kind).iter().map(|column| row.text(column)).collect::<Result<Vec<_>, _>>()?;
    Ok(EffectOfFact {
        tenant: row.id("tenant_id")?,
        order: row.id("order_id")?,
        fact: if columns.is_empty() { SHIPMENT.to_owned() } else { columns.join(":") },
        event_id: row.named("event_id")?,
    })
}

/// The columns that [`effect_of_fact`] reads.
fn effect_columns(kind: EffectKind) -> String {
    let fact: String = fact_columns(kind).iter().map(|column| format!(", {column}")).collect();
    format!("id, tenant_id, order_id, event_id{fact}")
}

fn change_kind(row: Fields<'_>) -> Result<ListingChangeKind, StoreError> {
    match row.text("kind")? {
        "OCCUPIED" => Ok(ListingChangeKind::Occupied),
        "RELEASED" => Ok(ListingChangeKind::Released),
        other => Err(row.corrupt("kind", format!("{other:?} is unknown"))),
    }
}

/// The order of the shipment task in the row of the enclosing query.
const ORDER_OF_TASK: &str =
    "FROM orders o WHERE o.id = shipments.order_id AND o.tenant_id = shipments.tenant_id";

/// The statuses of orders whose shipment task is open: `'pending', 'paid'`.
fn open_statuses() -> String {
    let is_open = |status: &&OrderStatus| status.shipment_state() == ShipmentState::Open;
    let open: Vec<String> =
        OrderStatus::ALL.iter().filter(is_open).map(|status| format!("'{status}'")).collect();
    open.join(", ")
}

/// Condition that selects shipment tasks in this state. A task without an order is closed.
fn in_state(state: ShipmentState) -> String {
    let not = match state {
        ShipmentState::Open => "",
        ShipmentState::Closed => "NOT ",
    };
    format!("AND {not}EXISTS (SELECT 1 {ORDER_OF_TASK} AND o.status IN ({}))", open_statuses())
}

/// A page of a user's shipment tasks.
pub(crate) fn shipments_page(
    dialect: &dyn Dialect,
    (tenant, user): (TenantId, UserId),
    side: OrderSide,
    state: Option<ShipmentState>,
    before: Option<i64>,
    most: u32,
) -> (String, Vec<Value>) {
    let columns =
        format!("SELECT id, {TASK}, (SELECT status {ORDER_OF_TASK}) AS order_status FROM shipments");
    let before = before.unwrap_or(i64::MAX);
    if (side, state) == (OrderSide::Seller, Some(ShipmentState::Open)) {
        // The few open tasks are found by their orders and then sorted. In the order of ids, every task of the seller would
        // be read.
        let sql = format!(
            "{columns} {tasks} WHERE tenant_id = ? AND order_id IN (SELECT o.id FROM orders o {orders} \
               WHERE o.tenant_id = ? AND o.seller_id = ? AND o.status IN ({open})) \
             AND {seller} = ? AND id + 0 < ? ORDER BY id + 0 DESC LIMIT ?",
            tasks = dialect.index("uk_shipments"),
            orders = dialect.index("idx_orders_open"),
            open = open_statuses(),
            seller = dialect.unindexed("seller_id"),
        );
        return (sql, values![tenant.get(), tenant.get(), user.get(), user.get(), before, most]);
    }
    let party = match side {
        OrderSide::Buyer => "buyer_id",
        OrderSide::Seller => "seller_id",
    };
    let in_state = state.map(in_state).unwrap_or_default();
    let sql = format!(
        "{columns} WHERE tenant_id = ? AND {party} = ? AND id < ? {in_state} ORDER BY id DESC LIMIT ?"
    );
    (sql, values![tenant.get(), user.get(), before, most])
}

fn listed_shipment(row: &Row) -> Result<Numbered<ListedShipment>, StoreError> {
    let Numbered { id, effect: task } = ShipmentTable::numbered(row)?;
    let order_status = ShipmentTable::fields(row).opt_named("order_status")?;
    Ok(Numbered { id, effect: ListedShipment { task, order_status } })
}

#[async_trait]
impl EffectQueries for MarketSession {
    async fn listing_changes(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<ListingChange>, StoreError> {
        let columns = format!("id, {CHANGE}");
        let of_orders = OfOrders { table: "listing_changes", columns: &columns, sequence: "id" };
        of_orders.fetch(self, (tenant, orders), ChangeTable::read).await
    }

    async fn listing_changes_of_products(
        &mut self,
        tenant: TenantId,
        products: &[ProductId],
    ) -> Result<Vec<ListingChange>, StoreError> {
        let products: BTreeSet<i64> = products.iter().map(|product| product.get()).collect();
        let products: Vec<i64> = products.into_iter().collect();
        self.changes_of_products(tenant, &products, "product_id, id").await
    }

    async fn effects_of(
        &mut self,
        kind: EffectKind,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<EffectOfFact>, StoreError> {
        let columns = effect_columns(kind);
        let of_orders = OfOrders { table: kind.table(), columns: &columns, sequence: "id" };
        of_orders.fetch(self, (tenant, orders), |row| effect_of_fact(kind, row)).await
    }

    async fn effects_without_order(
        &mut self,
        kind: EffectKind,
        tenant: Option<TenantId>,
        newest: u32,
    ) -> Result<Vec<EffectOfFact>, StoreError> {
        let mut values = values![newest];
        values.extend(tenant.map(|tenant| Value::from(tenant.get())));
        let sql = format!(
            "SELECT {columns} FROM (SELECT * FROM {table} ORDER BY id DESC LIMIT ?) e \
             WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.id = e.order_id AND o.tenant_id = e.tenant_id) {visible} \
             ORDER BY e.id DESC",
            columns = effect_columns(kind),
            table = kind.table(),
            visible = if tenant.is_some() { "AND e.tenant_id = ?" } else { "" },
        );
        self.fetch(&sql, values).await?.iter().map(|row| effect_of_fact(kind, row)).collect()
    }

    async fn listing_of(
        &mut self,
        tenant: TenantId,
        seller: UserId,
    ) -> Result<Vec<ListingEntry>, StoreError> {
        let sql =
            format!("SELECT {ENTRY} FROM listings WHERE tenant_id = ? AND seller_id = ? ORDER BY product_id");
        self.fetch(&sql, values![tenant.get(), seller.get()]).await?.iter().map(ListingTable::read).collect()
    }

    async fn shipment_tasks(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<ShipmentTask>, StoreError> {
        let columns = format!("id, {TASK}");
        let of_orders = OfOrders { table: "shipments", columns: &columns, sequence: "id" };
        of_orders.fetch(self, (tenant, orders), ShipmentTable::read).await
    }

    async fn listings_page(
        &mut self,
        tenant: TenantId,
        seller: UserId,
        before: Option<ProductId>,
        limit_to: u32,
    ) -> Result<Vec<ListingEntry>, StoreError> {
        let sql = format!(
            "SELECT {ENTRY} FROM listings WHERE tenant_id = ? AND seller_id = ? AND product_id < ? \
             ORDER BY product_id DESC LIMIT ?"
        );
        let before = before.map_or(END_OF_IDS, ProductId::get);
        let values = values![tenant.get(), seller.get(), before, limit_to];
        self.fetch(&sql, values).await?.iter().map(ListingTable::read).collect()
    }

    async fn shipments_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        side: OrderSide,
        state: Option<ShipmentState>,
        before: Option<i64>,
        limit_to: u32,
    ) -> Result<Vec<Numbered<ListedShipment>>, StoreError> {
        let (sql, values) = shipments_page(self.dialect(), (tenant, user), side, state, before, limit_to);
        self.fetch(&sql, values).await?.iter().map(listed_shipment).collect()
    }
}

impl MarketSession {
    /// All listing changes of the products in `listings`. The changes of one product are in the order in which they
    /// were applied.
    async fn changes_of(&mut self, listings: &BTreeSet<Listing>) -> Result<Vec<ListingChange>, StoreError> {
        let mut products: BTreeMap<TenantId, Vec<i64>> = BTreeMap::new();
        for (tenant, _, product) in listings {
            products.entry(*tenant).or_default().push(product.get());
        }
        let mut changes = Vec::new();
        for (tenant, products) in products {
            changes.extend(self.changes_of_products(tenant, &products, "id").await?);
        }
        Ok(changes)
    }

    /// All listing changes of these products, sorted by the columns in `sequence` within each chunk of products.
    async fn changes_of_products(
        &mut self,
        tenant: TenantId,
        products: &[i64],
        sequence: &str,
    ) -> Result<Vec<ListingChange>, StoreError> {
        let mut changes = Vec::new();
        for products in products.chunks(MAX_ROWS) {
            let products = padded(products);
            let (sql, values) = self.dialect().look_up(LookUp {
                columns: &format!("id, {CHANGE}"),
                from: "listing_changes".to_owned(),
                column: "product_id",
                keys: products.into_iter().map(Value::from).collect(),
                conditions: format!("{} = ?", self.dialect().unindexed("tenant_id")),
                values: values![tenant.get()],
                order: sequence,
                ..LookUp::default()
            });
            for row in self.fetch(&sql, values).await? {
                changes.push(ChangeTable::read(&row)?);
            }
        }
        Ok(changes)
    }

    /// Inserts the listings that do not exist, and returns their number. Each entry has an event of its own, so an entry
    /// that exists is another one.
    async fn insert_listings(
        &mut self,
        listings: &BTreeMap<Listing, ListingEntry>,
    ) -> Result<u64, StoreError> {
        let after = self.dialect().or_keep(ListingTable::KEY, ListingTable::UPDATED);
        let rows = ListingTable::rows(listings);
        let affected = self.insert(ListingTable::INSERT, ListingTable::INSERTED, rows, &after).await?;
        Ok(self.dialect().inserted(listings.len() as u64, affected))
    }

    /// Writes listings. The write also locks their rows.
    async fn put_listings(&mut self, listings: &BTreeMap<Listing, ListingEntry>) -> Result<(), StoreError> {
        self.insert_or_update::<ListingTable>(ListingTable::rows(listings)).await
    }
}

/// The entries of these listings after the changes.
fn entries_after(listings: &BTreeSet<Listing>, changes: &[ListingChange]) -> BTreeMap<Listing, ListingEntry> {
    let after = |listing: &Listing| {
        let own = changes.iter().filter(|change| change.listing() == *listing);
        Some((*listing, ListingEntry::after(own)?))
    };
    listings.iter().filter_map(after).collect()
}

#[async_trait]
impl EffectRepo for MarketSession {
    async fn change_listings(&mut self, changes: &[ListingChange]) -> Result<(), StoreError> {
        let listings: BTreeSet<Listing> = changes.iter().map(ListingChange::listing).collect();
        let written = entries_after(&listings, changes);
        let inserted = self.insert_listings(&written).await?;
        self.insert_into::<ChangeTable>(ChangeTable::rows(changes), "").await?;
        // A listing is written with its first change: a listing that did not exist has no older changes.
        if inserted == written.len() as u64 {
            return Ok(());
        }
        // The listings are first computed from the new changes only, and written. This write locks them, so that no
        // concurrent unit of work can add a change before all changes are read. A listing is written a second time in
        // the rare case that an older change leads to a different entry.
        self.put_listings(&written).await?;
        let mut corrected = entries_after(&listings, &self.changes_of(&listings).await?);
        corrected.retain(|listing, entry| written.get(listing) != Some(entry));
        self.put_listings(&corrected).await
    }

    async fn open_shipments(&mut self, tasks: &[NewShipmentTask]) -> Result<(), StoreError> {
        self.insert_into::<ShipmentTable>(ShipmentTable::rows(tasks), "").await
    }
}
