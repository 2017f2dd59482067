//! `handover demo` as it is shipped: a whole market day, as a newcomer would see it first. The verdict it gives about
//! itself is given again here by the end check that scenarios and faults rely on, which reads the same file with SQL of its
//! own.
//!
//! Small days: `bootstrap/service/tests/cli/demo.rs`.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use handover_tests::books::Books;
use handover_tests::long;
use handover_tests::process::program;
use serde_json::Value;
use tempfile::TempDir;

/// The longest wait for a verdict. No promise: the machine may be busy.
const VERDICT_WITHIN: Duration = Duration::from_secs(600);
/// How long a day of 200 orders may take on a machine that does nothing else.
const A_DAY: Duration = Duration::from_secs(60);

/// A demo that is killed when the test ends, however it does.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The seed of the day: always the same one in CI, and another one each time with HANDOVER_LONG=1.
fn seed() -> u64 {
    match long() {
        true => SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() % 1_000_000,
        false => 1,
    }
}

/// A day that was played, was found to be kept and has ended.
struct Day {
    _folder: TempDir,
    took: Duration,
    books: Books,
}

impl Day {
    async fn play(orders: i64) -> Day {
        let folder = tempfile::tempdir().unwrap();
        let (mut demo, report, took) = play(folder.path(), orders);
        assert_eq!(report["verdict"], "kept", "{report:#}");
        let sent = Command::new("kill").args(["-TERM", &demo.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert_eq!(demo.0.wait().unwrap().code(), Some(0), "it stops as asked, and the verdict stands");
        let books = Books::open(&Path::new(report["folder"].as_str().unwrap()).join("handover.db")).await;
        Day { _folder: folder, took, books }
    }
}

/// Plays a day and goes on serving; answers with the report and how long that took.
fn play(folder: &Path, orders: i64) -> (Demo, Value, Duration) {
    let (seed, orders) = (seed().to_string(), orders.to_string());
    println!("handover demo --orders {orders} --seed {seed}");
    let [out, err] = ["out", "err"].map(|name| File::create(folder.join(name)).unwrap());
    let mut command = Command::new(program().unwrap());
    command.args(["demo", "--keep", "--output", "json", "--orders", &orders, "--seed", &seed]);
    command.env("TMPDIR", folder).current_dir(folder).stdin(Stdio::null());
    let begun = Instant::now();
    let mut demo = Demo(command.stdout(out).stderr(err).spawn().unwrap());
    let said = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    loop {
        if said("out").ends_with("}\n") {
            let report: Value = serde_json::from_str(&said("out")).unwrap();
            println!("verdict: {}, figures: {}", report["verdict"], report["figures"]);
            return (demo, report, begun.elapsed());
        }
        let ended = demo.0.try_wait().unwrap();
        assert!(
            ended.is_none() && begun.elapsed() < VERDICT_WITHIN,
            "no verdict: {ended:?}\n{}",
            said("err")
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn a_market_day_is_kept_and_the_end_check_finds_the_same() {
    let orders = if long() { 2_000 } else { 60 };
    let Day { books, .. } = &Day::play(orders).await;
    assert_eq!(books.number("SELECT count(*) FROM orders").await, orders);
    assert_eq!(books.unrest().await.unwrap(), Vec::<String>::new());
    let explained = "SELECT message_key FROM dead_letters WHERE status = 'DISCARDED' AND note IS NOT NULL";
    assert_eq!(books.rows(explained).await.unwrap().len(), 1);
    // The one dead letter there is has its explanation.
    let mut broken = books.broken().await;
    broken.retain(|sentence| !sentence.starts_with("a dead letter nobody can explain: 1 times"));
    assert_eq!(broken, Vec::<String>::new());
    // When a day has ended, so has everything that was begun on it.
    for open in [
        "SELECT count(*) FROM asset_holds WHERE status = 'FROZEN'",
        "SELECT count(*) FROM refunds WHERE status = 'PROCESSING'",
        "SELECT count(*) FROM payments p WHERE p.status = 'SUCCESS' AND p.refund_due = 1
         AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.payment_id = p.id AND r.status = 'SUCCESS')",
    ] {
        assert_eq!(books.number(open).await, 0, "{open}");
    }
    // Of a day on which nothing of it happened, the end check would say nothing.
    for happened in [
        "SELECT count(*) FROM ledger_entries",
        "SELECT count(*) FROM asset_holds WHERE status = 'COMMITTED' AND reverted = 1",
        "SELECT count(*) FROM orders WHERE cancel_reason = 'asset_lock_failed'",
        "SELECT count(*) FROM orders WHERE cancel_reason = 'payment_failed'",
        "SELECT count(*) FROM coupons WHERE status = 'USED'",
        "SELECT count(*) FROM refunds WHERE status = 'FAILED'",
        "SELECT count(*) FROM refunds WHERE status = 'SUCCESS' AND cause = 'late_payment'",
    ] {
        assert!(books.number(happened).await > 0, "{happened}");
    }
}

/// A busy machine misses deadlines of the program's own, and then something is tried again: of that the end check finds no
/// trace, and here, where there is time for a day alone, it must not happen.
#[tokio::test]
#[ignore = "long: how long a day takes, and that nothing is tried twice on a machine that does nothing else"]
async fn a_market_day_takes_less_than_a_minute_and_nothing_is_tried_twice() {
    let day = Day::play(200).await;
    assert!(day.took < A_DAY, "it took {:?}", day.took);
    assert_eq!(day.books.number("SELECT max(attempts) FROM event_consume_log").await, 1);
    assert_eq!(day.books.number("SELECT max(retry_count) FROM outbox_events").await, 0);
}
