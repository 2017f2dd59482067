//! The contract suite on MariaDB, PostgreSQL, RabbitMQ and Redis.

use handover_rabbitmq::QueueType;
use handover_tests::keys_rigs::{DatabaseKeysRig, RedisKeysRig};
use handover_tests::limiter_rigs::RedisLimiterRig;
use handover_tests::rabbit_rigs::RabbitBrokerRig;
use handover_tests::server_rigs::{ServerBrokerRig, ServerStoreRig};
use handover_tests::servers::database::ServerKind;

mod stores {
    use super::*;
    use handover_contract::contract;

    contract!(store, mariadb, async || ServerStoreRig::new(ServerKind::MariaDb).await);
    contract!(store, postgres, async || ServerStoreRig::new(ServerKind::Postgres).await);
}

mod markets {
    use super::*;
    use marketplace_contract::contract;

    contract!(store, mariadb, async || ServerStoreRig::new(ServerKind::MariaDb).await);
    contract!(store, postgres, async || ServerStoreRig::new(ServerKind::Postgres).await);
}

mod keys {
    use super::*;
    use marketplace_contract::contract;

    contract!(keys, mariadb, async || DatabaseKeysRig::of(ServerStoreRig::new(ServerKind::MariaDb).await));
    contract!(keys, postgres, async || DatabaseKeysRig::of(ServerStoreRig::new(ServerKind::Postgres).await));
    contract!(keys, redis, RedisKeysRig::new);
}

mod brokers {
    use super::*;
    use handover_contract::contract;

    contract!(broker, mariadb, async || ServerBrokerRig::new(ServerKind::MariaDb).await);
    contract!(broker, postgres, async || ServerBrokerRig::new(ServerKind::Postgres).await);
    contract!(broker, quorum, async || RabbitBrokerRig::new(QueueType::Quorum).await);
    contract!(broker, classic, async || RabbitBrokerRig::new(QueueType::Classic).await);
}

mod limiters {
    use super::*;
    use marketplace_contract::contract;

    // The Redis limiter alone, without the local limiter in front of it.
    contract!(limiter, redis, RedisLimiterRig::redis_only);

    /// Runs the limiter as it is shipped, with the local limiter in front of Redis. Only rules that state no exact
    /// times apply, because each of the two limiters has its own clock.
    #[test]
    fn redis_limiter_behind_local_limiter_follows_rules_without_exact_times() {
        let rules = [
            "bucket_grants_exactly_its_capacity",
            "each_party_and_route_has_a_separate_bucket",
            "concurrent_requests_get_at_most_the_capacity",
            "clock_set_back_adds_no_tokens",
            "clock_set_forward_adds_at_most_one_full_bucket",
            "granted_tokens_never_exceed_capacity_and_rate",
        ];
        for name in rules {
            let rule = marketplace_contract::limiter::RULES.iter().find(|rule| rule.name == name);
            let rule = rule.expect("the contract suite must have a rule with this name");
            handover_contract::run(async { (rule.run)(&RedisLimiterRig::with_local_limiter().await).await });
        }
    }
}
