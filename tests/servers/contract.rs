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

    // The decisions of Redis alone.
    contract!(limiter, redis, RedisLimiterRig::alone);

    /// As shipped, with the local limiter in front: only rules that state no exact times, because each of the two limiters has
    /// its own clock.
    #[test]
    fn redis_limiter_behind_local_limiter_grants_no_more() {
        let rules = [
            "a_bucket_holds_what_it_says_and_no_more",
            "every_party_and_route_has_a_bucket_of_its_own",
            "of_many_at_once_no_more_are_let_in_than_the_bucket_holds",
            "a_clock_set_back_gives_nothing",
            "a_clock_set_forward_gives_one_full_bucket_at_most",
            "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
        ];
        for name in rules {
            let rule = marketplace_contract::limiter::RULES.iter().find(|rule| rule.name == name);
            let rule = rule.expect("a rule with this name");
            handover_contract::run(async { (rule.run)(&RedisLimiterRig::whole().await).await });
        }
    }
}
