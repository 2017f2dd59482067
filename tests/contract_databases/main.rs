//! The contract of the ports, kept on servers: MariaDB and PostgreSQL, started here.

use handover_tests::keys_rigs::DatabaseKeysRig;
use handover_tests::server_rigs::{ServerBrokerRig, ServerStoreRig};
use handover_tests::servers::database::ServerKind;
use handover_tests::{broker_contract, keys_contract, store_contract};

mod stores {
    use super::*;

    store_contract!(mariadb, async || ServerStoreRig::new(ServerKind::MariaDb).await);
    store_contract!(postgres, async || ServerStoreRig::new(ServerKind::Postgres).await);
}

mod keys {
    use super::*;

    keys_contract!(mariadb, async || DatabaseKeysRig::of(ServerStoreRig::new(ServerKind::MariaDb).await));
    keys_contract!(postgres, async || DatabaseKeysRig::of(ServerStoreRig::new(ServerKind::Postgres).await));
}

mod brokers {
    use super::*;

    broker_contract!(mariadb, async || ServerBrokerRig::new(ServerKind::MariaDb).await);
    broker_contract!(postgres, async || ServerBrokerRig::new(ServerKind::Postgres).await);
}
