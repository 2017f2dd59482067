//! Blocks of ids.

use crate::session::MarketSession;
use async_trait::async_trait;
use handover_events::MAX_ID;
use handover_outbox::ports::StoreError;
use handover_sql::values;
use marketplace::ports::{END_OF_IDS, IdBlocks, IdKind, IdQueries, IdState, IdsExhausted};

/// The table whose rows have ids of this kind.
const fn table(kind: IdKind) -> &'static str {
    match kind {
        IdKind::Product => "products",
        IdKind::Order => "orders",
        IdKind::Payment => "payments",
        IdKind::Refund => "refunds",
        IdKind::Coupon => "coupons",
        IdKind::Invoice => "invoices",
    }
}

#[async_trait]
impl IdQueries for MarketSession {
    async fn id_state(&mut self, kind: IdKind) -> Result<IdState, StoreError> {
        let block = "SELECT kind, next_id FROM id_blocks WHERE kind = ?";
        let next = match self.fetch_one(block, values![kind.as_str()]).await? {
            Some(row) => row.of("id_blocks", "kind").int("next_id")?,
            None => 1,
        };
        let newest = format!("SELECT id FROM {} WHERE id <= ? ORDER BY id DESC LIMIT 1", table(kind));
        let largest = match self.fetch_one(&newest, values![MAX_ID]).await? {
            Some(row) => row.of(table(kind), "id").int("id")?.max(0),
            None => 0,
        };
        Ok(IdState { next, largest })
    }

    async fn id_is_taken(&mut self, kind: IdKind, id: i64) -> Result<bool, StoreError> {
        let sql = format!("SELECT id FROM {} WHERE id = ?", table(kind));
        Ok(self.fetch_one(&sql, values![id]).await?.is_some())
    }
}

#[async_trait]
impl IdBlocks for MarketSession {
    async fn raise_id_block(&mut self, kind: IdKind, next: i64) -> Result<(), StoreError> {
        if next > END_OF_IDS {
            return Err(IdsExhausted { kind, next }.into());
        }
        let lock = self.dialect().for_update();
        let block = format!("SELECT kind, next_id FROM id_blocks WHERE kind = ? {lock}");
        if self.fetch_one(&block, values![kind.as_str()]).await?.is_none() {
            let insert = "INSERT INTO id_blocks (kind, next_id) VALUES (?, ?)";
            self.execute(insert, values![kind.as_str(), next]).await?;
            return Ok(());
        }
        let raise = "UPDATE id_blocks SET next_id = ? WHERE kind = ? AND (next_id < ? OR next_id > ?)";
        self.execute(raise, values![next, kind.as_str(), next, END_OF_IDS]).await?;
        Ok(())
    }

    async fn take_id_block(&mut self, kind: IdKind, size: u32) -> Result<i64, StoreError> {
        let size = i64::from(size);
        let updated = self
            .execute(
                "UPDATE id_blocks SET next_id = next_id + ? WHERE kind = ? AND next_id BETWEEN 1 AND ?",
                values![size, kind.as_str(), END_OF_IDS - size],
            )
            .await?;
        let block = "SELECT kind, next_id FROM id_blocks WHERE kind = ?";
        let row = self.fetch_one(block, values![kind.as_str()]).await?;
        let next = row.map(|row| row.of("id_blocks", "kind").int("next_id")).transpose()?;
        match next {
            Some(next) if updated > 0 => Ok(next - size),
            Some(next) if (1..=END_OF_IDS - size).contains(&next) => {
                Err(self.conflict("id_blocks: another unit of work inserted the row"))
            }
            Some(next) => Err(IdsExhausted { kind, next }.into()),
            None => {
                // If two units of work insert the row concurrently, one fails with a conflict and is retried.
                let insert = "INSERT INTO id_blocks (kind, next_id) VALUES (?, ?)";
                self.execute(insert, values![kind.as_str(), 1 + size]).await?;
                Ok(1)
            }
        }
    }
}
