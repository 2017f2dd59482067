//! Short runs of `handover demo` through the real binary: output, exit code, remaining files.
//!
//! Eight demos run: two must keep every promise, two have the same seed, two are interrupted, one tests the service
//! that keeps running after the demo (`--keep`), and in one the test modifies the database. Seeds are fixed; with
//! `HANDOVER_LONG`, four more demos with fresh seeds must keep every promise. Which promise detects which violation is
//! tested by the unit tests of the verdict (`bootstrap/demo/src/verdict/tests`).

#![allow(clippy::disallowed_methods, reason = "the tests wait for real processes and need the real clock")]

mod days;

use days::{Day, at_once};
use handover_outbox::ports::RandomSource;
use handover_system::OsRandom;
use serde_json::Value;

use crate::inspect::dead_letter;
use crate::redrive::change;

/// Seeds of demos in which the amount of a late payment ends in .13. The sandbox would fail the first refund of such an
/// amount, so these demos test that the sandbox receives no refund requests during the simulated day.
const SEEDS: [u64; 2] = [3_579, 37_923];

/// The seeds of the demos that must keep every promise.
fn seeds() -> Vec<u64> {
    let mut seeds = SEEDS.to_vec();
    if std::env::var_os("HANDOVER_LONG").is_some() {
        let random = OsRandom::seeded().unwrap();
        let fresh = [(); 4].map(|()| random.next());
        println!("fresh seeds: {fresh:?}");
        seeds.extend(fresh);
    }
    seeds
}

#[test]
fn demo_keeps_every_promise_and_prints_one_json_document() {
    let played =
        at_once(seeds(), |seed| (seed, Day::new().with(&format!("--orders 15 --seed {seed}")).play()));
    for (seed, day) in played {
        let report = day.kept();
        let keys: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["verdict", "broken", "promises", "figures", "seed", "orders", "folder"]);
        assert_eq!(report["verdict"], "kept");
        assert_eq!(report["broken"], Value::Array(Vec::new()));
        assert_eq!((report["seed"].as_u64(), report["orders"].as_u64()), (Some(seed), Some(15)));
        assert_eq!(report["folder"], Value::Null, "the folder is removed");
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
        let failed = report["figures"]["failedRefunds"].as_u64();
        assert!(failed.is_some_and(|failed| failed <= 1), "only the planned refund may fail: {report:#}");
        assert_eq!(day.left(), Vec::<String>::new());
        for phase in [
            "granting assets to buyers",
            "concurrent orders for one lamp",
            "broker outage",
            "settling events",
        ] {
            assert!(day.stderr().lines().any(|line| line == phase), "{phase:?} is not in\n{}", day.stderr());
        }
    }
}

/// Compares the products, which depend only on the seed and the number of orders. The outcome of orders also depends on
/// the timing of requests.
#[test]
fn demo_with_same_seed_sells_the_same_products_and_ignores_configuration() {
    let sold = at_once(vec!["", "nonsense"], |configuration| {
        let mut day = Day::new().table().with("--orders 14 --seed 77 --keep");
        if !configuration.is_empty() {
            day.write("handover.toml", configuration);
            day = day.set("HANDOVER_HTTP__LISTEN", configuration);
        }
        let mut day = day.start();
        let market = day.market();
        let (status, products) = market.get("/api/v1/products?limit=100");
        assert_eq!(status, 200, "{products}");
        let part = |product: &Value| ["title", "price", "sellerId"].map(|field| product[field].to_string());
        let mut sold: Vec<[String; 3]> =
            products["data"]["items"].as_array().unwrap().iter().map(part).collect();
        sold.sort();
        day.signal("TERM");
        assert_eq!(day.ended().code(), Some(0));
        sold
    });
    // The products of the day and those of two past months.
    assert_eq!(sold[0].len(), 14 + 4);
    assert_eq!(sold[0], sold[1]);
}

#[tokio::test]
async fn demo_names_broken_promise_and_exits_with_1() {
    let mut day = Day::new().with("--orders 10 --seed 5").start();
    day.wait_for("granting assets to buyers");
    let unexplained =
        dead_letter("order.fulfillment.queue", "nobody-explains-this", None, "", "parked by a test");
    change(&day.folder().join("handover.db"), async move |unit| {
        unit.outbox().park(&[unexplained]).await.unwrap()
    })
    .await;
    let day = day.ended();
    let report = day.broken();
    let name = "dead letters are explained";
    assert_eq!(report["verdict"], "broken");
    assert_eq!(report["broken"], serde_json::json!([name]), "{report:#}");
    let line = format!("error: broken promise: {name}: promised 1, 1 explained, found 2, 2 explained; ");
    assert!(day.stderr().lines().any(|it| it.starts_with(&line)), "{line} is not in\n{}", day.stderr());
    assert_eq!(day.left(), Vec::<String>::new());
}

#[test]
fn interrupted_demo_stops_and_removes_its_folder() {
    at_once(vec![("INT", "trading"), ("TERM", "broker outage")], |(signal, phase)| {
        let mut day = Day::new().with("--orders 40 --seed 6").start();
        day.wait_for(phase);
        day.signal(signal);
        let day = day.ended();
        assert_eq!((day.code(), day.stdout()), (Some(1), ""), "{}", day.stderr());
        let line = format!("SIG{signal}: demo interrupted; nothing was verified");
        assert!(day.stderr().lines().any(|it| it == line), "{}", day.stderr());
        assert_eq!(day.left(), Vec::<String>::new());
    });
}

#[test]
fn demo_with_keep_prints_a_table_and_keeps_serving() {
    let mut day = Day::new().table().with(&format!("--orders 10 --seed {} --keep", u64::MAX)).start();
    let market = day.market();
    assert_eq!(market.get("/readyz").0, 200);
    assert_eq!(market.get("/api/v1/ops/outbox?limit=5").0, 200);
    let config = format!("{}/handover.toml", market.folder);
    let outbox = |day: &days::Running, flags: &str| {
        let flags =
            flags.split_whitespace().chain(["--limit", "1000", "--output", "json", "--config", &config]);
        let listed = day.other(&["outbox", "list"].into_iter().chain(flags).collect::<Vec<_>>());
        listed["items"].as_array().unwrap().clone()
    };
    assert!(!outbox(&day, "--status sent").is_empty());
    // After the simulated day the service sends refund requests to the sandbox, which reports their results. The plan
    // of every seed has two orders that end as paid and use only money.
    let paid = outbox(&day, "--event-type ORDER_PAID");
    let mut refunds = paid.iter().map(|event| format!("/api/v1/ops/orders/{}/refunds", event["aggregateId"]));
    let starts = |path: &String| {
        let (status, response) = market.post(path, r#"{"reason":"ordered twice by mistake"}"#);
        status < 300 && response["data"]["status"] == "PROCESSING"
    };
    let refunds = refunds.find(starts).expect("an order that is paid with money only");
    day.until("report of the refund", |_| {
        let (status, response) = market.get(&refunds);
        assert_eq!(status, 200, "{response}");
        (!response.to_string().contains("\"PROCESSING\"")).then_some(())
    });
    day.signal("TERM");
    let day = day.ended();
    assert_eq!(day.code(), Some(0), "{}", day.stderr());
    let (table, _) = day.stdout().split_once("\n\nThe service keeps running on ").unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("promise "), "{table}");
    let kept = lines.iter().filter(|line| line.ends_with("  kept")).count();
    assert!(table.contains(&format!("{kept} of {kept} promises kept; ")), "{table}");
    let again = format!("to repeat this day: handover demo --orders 10 --seed {}", u64::MAX);
    assert_eq!(lines.last(), Some(&again.as_str()));
    assert!(day.stderr().starts_with(&format!("seed {}, log in ", u64::MAX)), "{}", day.stderr());
    let log = std::fs::read_to_string(format!("{}/demo.log", market.folder)).unwrap();
    assert!(
        log.contains("[OutboxRelay] Event sent successfully"),
        "the log file contains the log of the demo"
    );
    assert!(!day.stderr().contains("[OutboxRelay]"), "stderr contains no log lines: {}", day.stderr());
}

#[test]
fn demo_refuses_invalid_arguments() {
    for flags in ["--orders 9", "--orders 20001", "--orders many", "--seed -1", "--config x"] {
        let day = Day::new().with(flags).play();
        assert_eq!((day.code(), day.stdout()), (Some(2), ""), "{flags}: {}", day.stderr());
        assert_eq!(day.left(), Vec::<String>::new());
    }
    let help = Day::new().table().with("--help").play();
    assert_eq!(help.code(), Some(0));
    assert!(help.stdout().contains("--orders"), "{}", help.stdout());
}
