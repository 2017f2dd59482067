//! The random sequences of `ports/differential.rs` on MariaDB and PostgreSQL. `HANDOVER_LONG=1` runs many more.

use handover_tests::differential::with_memory;
use handover_tests::server_rigs::ServerStoreRig;
use handover_tests::servers::database::ServerKind;

fn cases() -> u32 {
    if handover_tests::long() { 500 } else { 24 }
}

#[test]
fn memory_and_mariadb_give_same_results() {
    with_memory("MariaDB", cases(), async || ServerStoreRig::new(ServerKind::MariaDb).await);
}

#[test]
fn memory_and_postgresql_give_same_results() {
    with_memory("PostgreSQL", cases(), async || ServerStoreRig::new(ServerKind::Postgres).await);
}
