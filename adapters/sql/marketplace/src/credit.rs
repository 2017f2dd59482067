//! The credit of buyers.

use std::collections::BTreeMap;

use crate::of_orders::OfOrders;
use crate::session::MarketSession;
use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use handover_sql::{Fields, LookUp, MAX_ROWS, Table, Value, padded, table, values};
use marketplace::ports::{BuyerCredit, CreditChange, CreditQueries, CreditRepo};
use marketplace_domain::{CreditCounts, OrderId, UserId};

table! {
    ChangeTable("buyer_credit_changes" by "id"), read row as CreditChange, write change as &'a CreditChange;
    insert {
        tenant: id("tenant_id" = change.tenant.get()),
        buyer: id("buyer_id" = change.buyer.get()),
        order: id("order_id" = change.order.get()),
        aggregate_seq: int("aggregate_seq" = change.aggregate_seq),
        step: named("step" = change.step.as_str()),
        event_id: named("event_id" = &change.event_id),
        at: time("create_time" = change.at),
    }
}

type Buyer = (TenantId, UserId);

/// A row of the credit of a buyer.
struct CreditRow {
    buyer: Buyer,
    credit: BuyerCredit,
}

table! {
    CreditTable("buyer_credit" by "buyer_id"),
    read row as CreditRow, write new as (&'a Buyer, &'a BuyerCredit);
    insert {
        buyer: (buyer(row))("tenant_id" = new.0.0.get(), "buyer_id" = new.0.1.get()),
    }
    update {
        credit: (credit(row))(
            "completed" = new.1.counts.completed,
            "cancelled_by_buyer" = new.1.counts.cancelled_by_buyer,
            "cancelled_by_timeout" = new.1.counts.cancelled_by_timeout,
            "score" = new.1.score,
            "last_event_id" = &new.1.last_event_id,
            "update_time" = new.1.update_time
        ),
    }
}

fn buyer(row: Fields<'_>) -> Result<Buyer, StoreError> {
    Ok((row.id("tenant_id")?, row.id("buyer_id")?))
}

fn credit(row: Fields<'_>) -> Result<BuyerCredit, StoreError> {
    Ok(BuyerCredit {
        counts: CreditCounts {
            completed: row.count("completed")?,
            cancelled_by_buyer: row.count("cancelled_by_buyer")?,
            cancelled_by_timeout: row.count("cancelled_by_timeout")?,
        },
        score: row.count("score")?,
        last_event_id: row.named("last_event_id")?,
        update_time: row.time("update_time")?,
    })
}

#[async_trait]
impl CreditQueries for MarketSession {
    async fn credit_of(
        &mut self,
        tenant: TenantId,
        buyer: UserId,
    ) -> Result<Option<BuyerCredit>, StoreError> {
        let columns = CreditTable::COLUMNS;
        let sql = format!("SELECT {columns} FROM buyer_credit WHERE tenant_id = ? AND buyer_id = ?");
        let row = self.fetch_one(&sql, values![tenant.get(), buyer.get()]).await?;
        Ok(row.as_ref().map(CreditTable::read).transpose()?.map(|row| row.credit))
    }

    async fn credit_changes(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<CreditChange>, StoreError> {
        let columns = format!("id, {}", ChangeTable::COLUMNS);
        let of_orders = OfOrders { table: "buyer_credit_changes", columns: &columns, sequence: "id" };
        of_orders.fetch(self, (tenant, orders), ChangeTable::read).await
    }
}

impl MarketSession {
    /// Locks the credit rows of these buyers, which must exist, and returns their counts.
    async fn counts(
        &mut self,
        buyers: impl Iterator<Item = &Buyer>,
    ) -> Result<BTreeMap<Buyer, CreditCounts>, StoreError> {
        let mut of_tenant: BTreeMap<TenantId, Vec<i64>> = BTreeMap::new();
        for (tenant, buyer) in buyers {
            of_tenant.entry(*tenant).or_default().push(buyer.get());
        }
        let mut counts = BTreeMap::new();
        for (tenant, buyers) in of_tenant {
            for buyers in buyers.chunks(MAX_ROWS) {
                let buyers = padded(buyers);
                let (sql, values) = self.dialect().look_up(LookUp {
                    columns: CreditTable::COLUMNS,
                    from: format!("buyer_credit {}", self.dialect().lock_index("PRIMARY")),
                    column: "buyer_id",
                    keys: buyers.into_iter().map(Value::from).collect(),
                    conditions: "tenant_id = ?".to_owned(),
                    values: values![tenant.get()],
                    lock: self.dialect().for_update(),
                    ..LookUp::default()
                });
                for row in self.fetch(&sql, values).await? {
                    let CreditRow { buyer, credit } = CreditTable::read(&row)?;
                    counts.insert(buyer, credit.counts);
                }
            }
        }
        Ok(counts)
    }

    async fn put_credit(
        &mut self,
        credit: &BTreeMap<Buyer, BuyerCredit>,
        replaced: &[&str],
    ) -> Result<(), StoreError> {
        let after = self.dialect().or_replace(CreditTable::KEY, replaced);
        self.insert_into::<CreditTable>(CreditTable::rows(credit), &after).await
    }
}

#[async_trait]
impl CreditRepo for MarketSession {
    async fn change_credit(&mut self, changes: &[CreditChange]) -> Result<(), StoreError> {
        self.insert_into::<ChangeTable>(ChangeTable::rows(changes), "").await?;

        let mut touched: BTreeMap<Buyer, BuyerCredit> = BTreeMap::new();
        for change in changes {
            let counts = CreditCounts::default();
            let last = BuyerCredit {
                counts,
                score: counts.score(),
                last_event_id: change.event_id.clone(),
                update_time: change.at,
            };
            touched.insert((change.tenant, change.buyer), last);
        }
        // A missing row cannot be locked, so two units of work would both start from zero. Therefore the upsert first
        // creates the missing rows and locks the existing ones, in the order of their key.
        self.put_credit(&touched, &["update_time"]).await?;
        let mut counts = self.counts(touched.keys()).await?;
        for change in changes {
            let counts = counts.entry((change.tenant, change.buyer)).or_default();
            *counts = counts.and(change.step);
        }
        for (buyer, credit) in &mut touched {
            credit.counts = counts.get(buyer).copied().unwrap_or_default();
            credit.score = credit.counts.score();
        }
        self.put_credit(&touched, CreditTable::UPDATED).await
    }
}
