//! Builds the application with its event types and consumers.

use std::sync::Arc;

use handover_outbox::Outbox;
use handover_outbox::consumers::{Bound, Subscriber};
use handover_outbox::ports::Broker;

use crate::app::{App, NoGateway, Rules};
use crate::consumer::HandlerContext;
use crate::consumers;
use crate::event_types::event_types;
use crate::events::EventSource;
use crate::ids::Ids;
use crate::ports::{MarketTransactor, Work};
use crate::texts::texts;

impl App {
    pub fn new(tx: MarketTransactor, broker: Arc<dyn Broker>, rules: Rules) -> App {
        let pending_timeout = rules.pending_timeout;
        let registry = Arc::new(event_types(pending_timeout));
        let events = EventSource::new(
            Arc::clone(tx.clock()),
            Arc::clone(tx.random()),
            Arc::clone(&registry),
            rules.max_retry_count,
        );
        let handlers = HandlerContext { events, pending_timeout, points: rules.points };
        let consumers = consumers::standard();
        let outbox = Outbox {
            registry,
            texts: Arc::new(texts()),
            ..Outbox::new(tx.outbox(), broker, consumers::topology(pending_timeout))
        };
        App {
            outbox: consumers.subscribers(&handlers).iter().fold(outbox, Outbox::with_handler_of),
            ids: Arc::new(Ids::new(tx.clone())),
            tx,
            gateway: Arc::new(NoGateway),
            rules: Arc::new(rules),
            consumers,
            handlers,
            requests: Arc::default(),
            keys: None,
        }
    }

    /// Returns every consumer of this application with its queue.
    pub fn subscribers(&self) -> Vec<Subscriber<Work>> {
        self.consumers.subscribers(&self.handlers)
    }

    /// Returns the consumers of this application, bound to its store.
    pub fn bound(&self) -> Vec<Bound> {
        self.subscribers().iter().map(|subscriber| subscriber.bind(self.tx.store())).collect()
    }
}
