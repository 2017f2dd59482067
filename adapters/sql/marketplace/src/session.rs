//! The marketplace's unit of work: the toolkit's session with the marketplace's repositories.

use std::ops::{Deref, DerefMut};

use async_trait::async_trait;
use handover_outbox::ports::{OutboxUnit, OutboxView, StoreError, UnitOfWork, View};
use handover_sql::Session;

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

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.0.commit().await
    }
}
