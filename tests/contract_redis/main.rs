//! The contracts of the ports `RateLimiter` and `IdempotencyStore`, kept on Redis, started here.

use handover_tests::contract::{limiter, run};
use handover_tests::keys_rigs::RedisKeysRig;
use handover_tests::limiter_rigs::RedisLimiterRig;
use handover_tests::{keys_contract, limiter_contract};

keys_contract!(keys, RedisKeysRig::new);

// What Redis decides.
limiter_contract!(alone, RedisLimiterRig::alone);

/// As it is shipped, with the limiter of the process before it: the rules that say nothing of moments, which the two know
/// each for itself.
#[test]
fn behind_the_limiter_of_the_process_it_lets_in_no_more() {
    let rules = [
        "a_bucket_holds_what_it_says_and_no_more",
        "every_party_and_route_has_a_bucket_of_its_own",
        "of_many_at_once_no_more_are_let_in_than_the_bucket_holds",
        "a_clock_set_back_gives_nothing",
        "a_clock_set_forward_gives_one_full_bucket_at_most",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ];
    for name in rules {
        let rule = limiter::RULES.iter().find(|rule| rule.name == name).expect("a rule of that name");
        run(async { (rule.run)(&RedisLimiterRig::whole().await).await });
    }
}
