//! Acceptance scenarios of document 000 (tests named after the items of its sections 16 and 17) and of the seeds 003 and
//! 004. The tests use the program over HTTP; they access database and broker directly only where a seed requires
//! something that no user can do.

/// Generates scenarios for pairs of database and broker, in a module named after the scenario.
///
/// In CI each scenario runs on two pairs: on SQLite with the database broker, and on either MariaDB or PostgreSQL with
/// RabbitMQ, alternating down the list. Two pairs are enough because the contract suites prove that adapters are
/// interchangeable. All other pairs are ignored in CI and run by `tests/run --long`.
///
/// Options after the name of a scenario:
/// - `+ postgres_and_database` also runs it in CI on PostgreSQL with the database broker, for scenarios about the
///   tables of that broker, which several connections of a server use concurrently, unlike on SQLite;
/// - `: sqlite_and_database` runs it in CI on that pair only;
/// - `: rabbitmq` generates it for RabbitMQ only, and runs it in CI on one of the two pairs, also alternating.
macro_rules! by_turns {
    (@next $now:tt $then:tt) => {};
    (@next $now:tt $then:tt $scenario:ident, $($rest:tt)*) => {
        $crate::scenarios::by_turns!(@stamp $scenario
            [sqlite_and_database SqliteAlone] $now; $then [postgres_and_database PostgresAlone]);
        $crate::scenarios::by_turns!(@next $then $now $($rest)*);
    };
    (@next $now:tt $then:tt $scenario:ident + postgres_and_database, $($rest:tt)*) => {
        $crate::scenarios::by_turns!(@stamp $scenario
            [sqlite_and_database SqliteAlone] $now [postgres_and_database PostgresAlone]; $then);
        $crate::scenarios::by_turns!(@next $then $now $($rest)*);
    };
    (@next $now:tt $then:tt $scenario:ident: sqlite_and_database, $($rest:tt)*) => {
        $crate::scenarios::by_turns!(@stamp $scenario
            [sqlite_and_database SqliteAlone]; $now $then [postgres_and_database PostgresAlone]);
        $crate::scenarios::by_turns!(@next $now $then $($rest)*);
    };
    (@next $now:tt $then:tt $scenario:ident: rabbitmq, $($rest:tt)*) => {
        $crate::scenarios::by_turns!(@stamp $scenario $now; $then);
        $crate::scenarios::by_turns!(@next $then $now $($rest)*);
    };
    (@stamp $scenario:ident $([$name:ident $pair:ident])*; $([$long_name:ident $long_pair:ident])*) => {
        mod $scenario {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$scenario(handover_tests::deployment::Pair::$pair).await;
            })*
            $(#[tokio::test(flavor = "multi_thread")]
            #[ignore = "long: every scenario on every pair"]
            async fn $long_name() {
                super::$scenario(handover_tests::deployment::Pair::$long_pair).await;
            })*
        }
    };
    ($($scenarios:tt)*) => {
        $crate::scenarios::by_turns!(@next
            [mariadb_and_rabbitmq MariaDbRabbitMq] [postgres_and_rabbitmq PostgresRabbitMq] $($scenarios)*);
    };
}
pub(crate) use by_turns;

mod asyncapi;
mod broker_access;
mod encryption;
mod end_check;
mod insert_by_sql;
mod payment_methods;
mod purses;
mod s002_webhooks;
mod s003_idempotency;
mod s003_trace;
mod s004_acceptance;
mod s004_any_order;
mod s004_concurrency;
mod s004_continuous_reconciliation;
mod s004_contradictions;
mod s004_declines;
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
