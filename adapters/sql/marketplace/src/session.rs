//! The marketplace's unit of work: the toolkit's session with the marketplace's repositories.

use std::ops::{Deref, DerefMut};

use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{Changed, OutboxUnit, OutboxView, StoreError, UnitOfWork, View};
use handover_sql::{Session, Table, Value, values};

/// A session with the marketplace's repositories. It is a newtype, because a crate can implement foreign traits only
/// for its own types.
pub(crate) struct MarketSession(pub(crate) Box<Session>);

impl Deref for MarketSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl DerefMut for MarketSession {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.0
    }
}

impl View for MarketSession {
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self.0.outbox_view()
    }
}

#[async_trait]
impl UnitOfWork for MarketSession {
    fn outbox(&mut self) -> &mut dyn OutboxUnit {
        self.0.outbox()
    }

    fn defer_writes(&mut self) {
        self.0.defer_writes();
    }

    fn defers_writes(&mut self) -> bool {
        self.0.defers_writes()
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.0.commit().await
    }
}

/// Updates the row with this id if it has this version. `updated` are the [`Table::updated_values`].
pub(crate) async fn advance<T: Table>(
    session: &mut Session,
    mut updated: Vec<Value>,
    tenant: TenantId,
    id: i64,
    version: i64,
) -> Result<Changed, StoreError> {
    let sql = format!("UPDATE {} SET {} WHERE id = ? AND tenant_id = ? AND version = ?", T::NAME, T::SET);
    updated.extend(values![id, tenant.get(), version]);
    Ok(Changed::of(session.execute(&sql, updated).await?))
}
