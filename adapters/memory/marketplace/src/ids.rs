//! Id blocks.

use async_trait::async_trait;
use handover_memory::store::tables::Row;
use handover_outbox::ports::StoreError;
use marketplace::ports::{END_OF_IDS, IdBlocks, IdKind, IdQueries, IdState, IdsExhausted};

use crate::rows::IdBlockRow;
use crate::tables::{Lock, Market, MarketRows as _, Statement};
use crate::unit::MarketUnit;

impl Row<Market> for IdBlockRow {
    type Key = IdKind;
    type Index = ();

    fn key(&self) -> IdKind {
        self.kind
    }
}

/// The ids of all rows of a kind, in all tenants.
fn ids(statement: &Statement<'_>, kind: IdKind) -> Vec<i64> {
    match kind {
        IdKind::Product => statement.products().all().map(|row| row.id.get()).collect(),
        IdKind::Order => statement.orders().all().map(|row| row.id.get()).collect(),
        IdKind::Payment => statement.payments().all().map(|row| row.id.get()).collect(),
        IdKind::Refund => statement.refunds().all().map(|row| row.id.get()).collect(),
        IdKind::Coupon => statement.coupons().all().map(|row| row.id.get()).collect(),
        IdKind::Invoice => statement.invoices().all().map(|row| row.id.get()).collect(),
    }
}

fn next_id(statement: &Statement<'_>, kind: IdKind) -> i64 {
    statement.id_blocks().get(&kind).map_or(1, |row| row.next_id)
}

#[async_trait]
impl IdQueries for MarketUnit {
    async fn id_state(&mut self, kind: IdKind) -> Result<IdState, StoreError> {
        self.read(|statement| {
            let largest = ids(statement, kind).into_iter().max().unwrap_or(0);
            IdState { next: next_id(statement, kind), largest }
        })
        .await
    }

    async fn id_is_taken(&mut self, kind: IdKind, id: i64) -> Result<bool, StoreError> {
        self.read(|statement| ids(statement, kind).contains(&id)).await
    }
}

#[async_trait]
impl IdBlocks for MarketUnit {
    async fn raise_id_block(&mut self, kind: IdKind, next: i64) -> Result<(), StoreError> {
        self.write(vec![Lock::IdBlock(kind)], |statement| {
            if next > END_OF_IDS {
                return Err(IdsExhausted { kind, next }.into());
            }
            let next_id = next.max(next_id(statement, kind));
            statement.own.id_blocks.put(IdBlockRow { kind, next_id });
            Ok(())
        })
        .await
    }

    async fn take_id_block(&mut self, kind: IdKind, size: u32) -> Result<i64, StoreError> {
        self.write(vec![Lock::IdBlock(kind)], |statement| {
            let first = next_id(statement, kind);
            if first > END_OF_IDS - i64::from(size) {
                return Err(IdsExhausted { kind, next: first }.into());
            }
            statement.own.id_blocks.put(IdBlockRow { kind, next_id: first + i64::from(size) });
            Ok(first)
        })
        .await
    }
}
