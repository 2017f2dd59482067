//! Builds the application with its event types and consumers.

use std::sync::Arc;

use handover_outbox::Outbox;
use handover_outbox::consumers::{Bound, Subscriber};
use handover_outbox::ports::Broker;

use crate::app::{App, NoGateway, Rules};
use crate::event_types::event_types;
use crate::handlers::standard;
use crate::ports::{MarketTransactor, Work};
use crate::texts::texts;
use crate::{Ids, queues};

impl App {
    pub fn new(tx: MarketTransactor, broker: Arc<dyn Broker>, rules: Rules) -> App {
        let outbox = Outbox {
            registry: Arc::new(event_types(rules.pending_timeout)),
            on_failed: rules.on_failed,
            texts: Arc::new(texts()),
            ..Outbox::new(tx.outbox(), broker, queues::topology(rules.pending_timeout))
        };
        let app = App {
            ids: Arc::new(Ids::new(tx.clone())),
            tx,
            outbox,
            gateway: Arc::new(NoGateway),
            rules: Arc::new(rules),
            added: Arc::new([]),
            requests: Arc::default(),
            keys: None,
        };
        let outbox = standard(&app).iter().fold(app.outbox.clone(), Outbox::with_handler_of);
        App { outbox, ..app }
    }

    /// Adds a consumer and binds its queue to these routing keys.
    pub fn with_consumer(self, subscriber: Subscriber<Work>, bindings: &[&str]) -> App {
        let outbox = self.outbox.with_consumer(&subscriber, bindings);
        let added = self.added.iter().cloned().chain([subscriber]).collect();
        App { added, outbox, ..self }
    }

    /// Returns every consumer of this application with its queue.
    pub fn subscribers(&self) -> Vec<Subscriber<Work>> {
        standard(self).into_iter().chain(self.added.iter().cloned()).collect()
    }

    /// Returns the consumers of this application, bound to its store.
    pub fn bound(&self) -> Vec<Bound> {
        self.subscribers().iter().map(|subscriber| subscriber.bind(&self.tx.store)).collect()
    }
}
