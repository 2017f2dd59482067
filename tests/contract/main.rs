//! The contract of the ports, kept by every adapter that needs nothing but this workspace.

use handover_tests::keys_rigs::DatabaseKeysRig;
use handover_tests::limiter_rigs::LocalLimiterRig;
use handover_tests::rigs::{MemoryBrokerRig, MemoryStoreRig, SqliteBrokerRig, SqliteStoreRig};
use handover_tests::{broker_contract, keys_contract, limiter_contract, store_contract};

mod stores {
    use super::*;

    store_contract!(memory, async || MemoryStoreRig::new());
    store_contract!(sqlite, SqliteStoreRig::new);
}

mod keys {
    use super::*;

    keys_contract!(memory, async || DatabaseKeysRig::of(MemoryStoreRig::new()));
    keys_contract!(sqlite, async || DatabaseKeysRig::of(SqliteStoreRig::new().await));
}

mod limiters {
    use super::*;

    limiter_contract!(local, async || LocalLimiterRig::new());
}

mod brokers {
    use super::*;

    broker_contract!(memory, async || MemoryBrokerRig::new());
    broker_contract!(sqlite, SqliteBrokerRig::new);
}
