//! The contract suite on every adapter that needs no server.

use handover_tests::keys_rigs::DatabaseKeysRig;
use handover_tests::limiter_rigs::LocalLimiterRig;
use handover_tests::outbox_rig::OutboxRig;
use handover_tests::rigs::{MemoryBrokerRig, MemoryStoreRig, SqliteBrokerRig, SqliteStoreRig};

mod stores {
    use super::*;
    use handover_contract::contract;

    contract!(store, memory, async || MemoryStoreRig::new());
    contract!(store, outbox_of_the_facade, OutboxRig::new);
    contract!(store, sqlite, SqliteStoreRig::new);
    contract!(store, sqlite_with_prefix, SqliteStoreRig::prefixed);
}

mod markets {
    use super::*;
    use marketplace_contract::contract;

    contract!(store, memory, async || MemoryStoreRig::new());
    contract!(store, sqlite, SqliteStoreRig::new);
}

mod keys {
    use super::*;
    use marketplace_contract::contract;

    contract!(keys, memory, async || DatabaseKeysRig::of(MemoryStoreRig::new()));
    contract!(keys, sqlite, async || DatabaseKeysRig::of(SqliteStoreRig::new().await));
}

mod limiters {
    use super::*;
    use marketplace_contract::contract;

    contract!(limiter, local, async || LocalLimiterRig::new());
}

mod brokers {
    use super::*;
    use handover_contract::contract;

    contract!(broker, memory, async || MemoryBrokerRig::new());
    contract!(broker, sqlite, SqliteBrokerRig::new);
    contract!(broker, sqlite_with_prefix, SqliteBrokerRig::prefixed);
    contract!(broker, sqlite_with_slow_searches, SqliteBrokerRig::with_slow_searches);
}
