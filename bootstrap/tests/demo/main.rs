//! Small market days through the real binary: what it prints, how it exits, what it leaves behind; and every promise
//! broken on purpose, to see that the verdict names it. `--break`, which `--help` does not show, is for this alone.
//!
//! The days of one test are played side by side: most of a day is waiting.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "real processes run on real time")]

mod days;

use std::time::Duration;

use days::{Day, at_once};
use serde_json::Value;

#[test]
fn whatever_the_seed_every_promise_is_kept_and_stdout_is_one_json_document() {
    let played =
        at_once([1_u64, 2, 3, u64::MAX].map(|seed| Day::new().with(&format!("--orders 12 --seed {seed}"))));
    for (day, seed) in played.iter().zip([1_u64, 2, 3, u64::MAX]) {
        let report = day.kept();
        let keys: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["verdict", "broken", "promises", "figures", "seed", "orders", "folder"]);
        assert_eq!(report["verdict"], "kept");
        assert_eq!(report["broken"], Value::Array(Vec::new()));
        assert_eq!((report["seed"].as_u64(), report["orders"].as_u64()), (Some(seed), Some(12)));
        assert_eq!(report["folder"], Value::Null, "it is removed");
        let promises = report["promises"].as_array().unwrap();
        assert!(promises.len() >= 15, "{promises:#?}");
        for promise in promises {
            let keys: Vec<&str> = promise.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(keys, ["name", "promised", "found", "kept"]);
            assert_eq!(promise["kept"], true, "{promise}");
        }
        for figure in [
            "ordersPerSecond",
            "commitToEffectP50Ms",
            "commitToEffectP99Ms",
            "events",
            "effects",
            "ordersWithAssets",
            "assetOperations",
            "askedAgain",
            "refunds",
            "failedRefunds",
            "seconds",
        ] {
            assert!(report["figures"][figure].is_number(), "{figure}: {}", report["figures"]);
        }
        assert_eq!(day.left(), Vec::<String>::new());
        for phase in ["giving to the buyers", "the rush for one lamp", "the broker is away", "settling"] {
            assert!(day.stderr().lines().any(|line| line == phase), "{phase:?} is not in\n{}", day.stderr());
        }
    }
}

/// What nobody paid in time goes back seconds later, at the end of the day. In each of these days that is an amount of
/// which the sandbox says that its first refund fails.
#[test]
fn by_day_the_people_of_the_market_alone_say_what_became_of_a_refund() {
    for day in at_once([3_579, 37_923].map(|seed| Day::new().with(&format!("--orders 15 --seed {seed}")))) {
        let report = day.kept();
        assert_eq!(report["verdict"], "kept");
        let failed = report["figures"]["failedRefunds"].as_u64();
        assert!(failed.is_some_and(|failed| failed <= 1), "none but the planned one: {report:#}");
    }
}

#[test]
fn the_same_seed_plays_the_same_day_and_nothing_outside_is_read() {
    let day = || Day::new().with("--orders 14 --seed 77").set("HANDOVER_HTTP__LISTEN", "nonsense");
    let days = [day(), day()];
    days[1].write("handover.toml", "nonsense");
    let [one, two] = at_once(days);
    let planned = |report: &Value, name: &str| {
        let promises = report["promises"].as_array().unwrap();
        promises.iter().find(|promise| promise["name"] == name).unwrap()["found"].clone()
    };
    for name in [
        "orders stand where their clients were told",
        "a product is sold once",
        "no change without its event",
    ] {
        assert_eq!(planned(&one.kept(), name), planned(&two.kept(), name), "{name}");
    }
}

#[test]
fn a_promise_that_is_broken_on_purpose_is_named_and_the_exit_code_is_1() {
    let breaks: [(&str, &[&str]); 17] = [
        ("lose-effect", &["each effect exactly once"]),
        ("double-effect", &["each effect exactly once"]),
        ("reorder", &["effects come in the order of events"]),
        ("lose-event", &["no change without its event"]),
        ("unconfirm", &["every event is confirmed", "nothing is still on its way"]),
        ("free-product", &["a product is sold once"]),
        (
            "second-buyer",
            &[
                "no acknowledged order is lost",
                "one buyer gets the lamp",
                "a product is sold once",
                "every order is announced once",
                "no change without its event",
                // Nobody paid for what is said to be completed.
                "points are earned by what was paid",
            ],
        ),
        ("open-letter", &["dead letters are explained"]),
        ("spend-attempt", &["an outage costs no attempt"]),
        ("unbalance", &["the ledger sums to zero"]),
        ("drift-balance", &["balances are the sum of their entries"]),
        ("leave-hold", &["every hold is resolved"]),
        ("release-hold", &["holds end as their orders do"]),
        ("reuse-coupon", &["a coupon is used once"]),
        ("earn-twice", &["points are earned by what was paid"]),
        ("refund-twice", &["refunds are what was captured"]),
        ("late-twice", &["a late payment is paid back once"]),
    ];
    let days = breaks.map(|(which, _)| Day::new().with(&format!("--orders 30 --seed 5 --break {which}")));
    for (day, (which, broken)) in at_once(days).iter().zip(breaks) {
        let report = day.broken();
        assert_eq!(report["verdict"], "broken", "{which}");
        assert_eq!(report["broken"], serde_json::json!(broken), "{which}: {report:#}");
        for name in broken {
            let line = format!("error: broken promise: {name}: ");
            assert!(
                day.stderr().lines().any(|said| said.starts_with(&line)),
                "{line} is not in\n{}",
                day.stderr()
            );
        }
        assert_eq!(day.left(), Vec::<String>::new());
    }
}

#[test]
fn a_person_gets_a_table_with_a_line_per_promise_and_the_way_to_play_it_again() {
    let day = Day::new().table().with("--orders 10 --seed 5").play();
    assert_eq!(day.code(), Some(0), "{}", day.stderr());
    let lines: Vec<&str> = day.stdout().lines().collect();
    assert!(lines[0].starts_with("promise "), "{}", day.stdout());
    let kept = lines.iter().filter(|line| line.ends_with("  kept")).count();
    assert!(day.stdout().contains(&format!("{kept} of {kept} promises kept; ")), "{}", day.stdout());
    assert_eq!(lines.last(), Some(&"the same day again: handover demo --orders 10 --seed 5"));
    assert!(day.stderr().starts_with("seed 5, log in "), "{}", day.stderr());
}

#[test]
fn a_day_that_is_interrupted_stops_leaves_nothing_and_says_so() {
    for (signal, phase) in [("INT", "trading"), ("TERM", "the broker is away")] {
        let mut day = Day::new().with("--orders 40").start();
        day.wait_for(phase);
        day.signal(signal);
        let day = day.ended(Duration::from_secs(15));
        assert_eq!((day.code(), day.stdout()), (Some(1), ""), "{}", day.stderr());
        let line = format!("SIG{signal}: the day was not played to its end");
        assert!(day.stderr().lines().any(|said| said == line), "{}", day.stderr());
        assert_eq!(day.left(), Vec::<String>::new());
    }
}

#[test]
fn a_market_that_is_kept_serves_on_and_its_folder_answers_to_every_other_command() {
    let mut day = Day::new().table().with("--orders 10 --keep").start();
    day.wait_for("reading the database");
    let said = day.greeting();
    let line = said.lines().find(|line| line.starts_with("The market stays open on ")).unwrap();
    let (address, folder) = line
        .strip_prefix("The market stays open on http://")
        .and_then(|rest| rest.split_once(" until it is stopped (Ctrl-C); its folder stays: "))
        .unwrap();
    assert_eq!(days::get(address, "/readyz", None).0, 200);
    let token =
        said.lines().find_map(|line| line.trim().strip_prefix("operator=\"Authorization: Bearer ")).unwrap();
    let token = token.trim_end_matches('"');
    assert_eq!(days::get(address, "/api/v1/ops/outbox?limit=5", Some(token)).0, 200);
    let config = format!("{folder}/handover.toml");
    let outbox = |day: &days::Running, flags: &str| {
        let flags =
            flags.split_whitespace().chain(["--limit", "1000", "--output", "json", "--config", &config]);
        let listed = day.other(&["outbox", "list"].into_iter().chain(flags).collect::<Vec<_>>());
        listed["items"].as_array().unwrap().clone()
    };
    assert!(!outbox(&day, "--status sent").is_empty());
    // The day is over, so the sandbox is asked for what is to be paid back, and says what became of it. Whatever the
    // seed, two orders end as paid, in money alone.
    let paid = outbox(&day, "--event-type ORDER_PAID");
    let mut refunds = paid.iter().map(|event| format!("/api/v1/orders/{}/refunds", event["aggregateId"]));
    let begins = |path: &String| {
        let (status, told) = days::post(address, path, token, r#"{"reason":"a gift twice"}"#);
        status < 300 && told.contains("\"PROCESSING\"")
    };
    let refunds = refunds.find(begins).expect("an order that is paid in money alone");
    day.until("report of the refund", |_| {
        let (status, told) = days::get(address, &refunds, Some(token));
        assert_eq!(status, 200, "{told}");
        (!told.contains("\"PROCESSING\"")).then_some(())
    });
    day.signal("TERM");
    let day = day.ended(Duration::from_secs(15));
    assert_eq!(day.code(), Some(0), "{}", day.stderr());
    let log = std::fs::read_to_string(format!("{folder}/demo.log")).unwrap();
    assert!(log.contains("[OutboxRelay] Event sent successfully"), "the log of the day is there");
    assert!(!day.stderr().contains("[OutboxRelay]"), "and nowhere else: {}", day.stderr());
}

#[test]
fn too_few_too_many_and_too_strange_are_refused() {
    for flags in
        ["--orders 9", "--orders 20001", "--orders many", "--seed -1", "--break everything", "--config x"]
    {
        let day = Day::new().with(flags).play();
        assert_eq!((day.code(), day.stdout()), (Some(2), ""), "{flags}: {}", day.stderr());
        assert_eq!(day.left(), Vec::<String>::new());
    }
    let help = Day::new().table().with("--help").play();
    assert_eq!(help.code(), Some(0));
    assert!(help.stdout().contains("--orders") && !help.stdout().contains("--break"), "{}", help.stdout());
}
