//! The acceptance scenarios of seed 000, one test per item of its sections 16 and 17 and named after it, and those of seed
//! 004, on every pair of database and broker that it is shipped for. The program is used as its users would, over HTTP; database and broker are
//! read and written directly only where 000 asks for what no user can do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a broken promise panics with what it saw, and real processes run on real time"
)]

mod carrier;
mod encryption;
mod end_check;
mod purses;
mod s003_once;
mod s003_trace;
mod s004_acceptance;
mod s004_any_order;
mod s004_crowds;
mod s004_lost_rows;
mod s004_refunds;
mod s16_1_integration;
mod s16_1_rabbitmq;
mod s16_2_flows;
mod s16_3_rabbitmq;
mod s16_3_transactions;
mod s16_4_idempotence;
mod s16_4_reliability;
mod s17_fixed_data;
mod shop;

/// Stamps each of these tests for every pair.
macro_rules! on_every_pair {
    ($($test:ident),* $(,)?) => {
        handover_tests::on_pairs!([$($test),*]: sqlite_and_database SqliteAlone, postgres_and_database PostgresAlone,
            mariadb_and_rabbitmq MariaDbRabbitMq, postgres_and_rabbitmq PostgresRabbitMq);
    };
}
pub(crate) use on_every_pair;
