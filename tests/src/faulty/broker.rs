//! The in-memory broker with one fault.

use std::sync::Arc;
use std::time::Duration;

use crate::rigs::MemoryBrokerRig;
use async_trait::async_trait;
use handover_contract::broker::BrokerRig;
use handover_contract::faulty::FaultyBroker;
use handover_outbox::ports::Broker;

pub use handover_contract::faulty::BrokerFault as Fault;

/// Rig of the in-memory broker with one fault.
pub struct FaultyBrokerRig {
    sound: MemoryBrokerRig,
    fault: Fault,
}

impl FaultyBrokerRig {
    /// A fresh rig with the given fault.
    pub fn new(fault: Fault) -> FaultyBrokerRig {
        FaultyBrokerRig { sound: MemoryBrokerRig::new(), fault }
    }
}

#[async_trait]
impl BrokerRig for FaultyBrokerRig {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(FaultyBroker::new(self.sound.broker(), self.fault))
    }

    async fn advance(&self, by: Duration) {
        self.sound.advance(by + self.fault.ahead()).await;
    }
}
