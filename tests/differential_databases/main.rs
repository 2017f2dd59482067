//! The random sequences of `differential`, played on MariaDB and PostgreSQL: each gives the answers of the memory.
//! `HANDOVER_LONG=1` plays many more.

#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test outside any process of the application"
)]

#[path = "../differential/compare.rs"]
mod compare;
#[path = "../differential/play/mod.rs"]
mod play;
#[path = "../differential/steps/mod.rs"]
mod steps;

use handover_tests::server_rigs::ServerStoreRig;
use handover_tests::servers::database::ServerKind;

fn cases() -> u32 {
    if handover_tests::long() { 500 } else { 24 }
}

#[test]
fn memory_and_mariadb_give_the_same_answers() {
    compare::with_memory("MariaDB", cases(), async || ServerStoreRig::new(ServerKind::MariaDb).await);
}

#[test]
fn memory_and_postgresql_give_the_same_answers() {
    compare::with_memory("PostgreSQL", cases(), async || ServerStoreRig::new(ServerKind::Postgres).await);
}
