//! `handover demo` as it is shipped: a whole market day, as a stranger would see it first. The verdict it gives about
//! itself is given again here by another judge, who reads the same file with SQL of his own.
//!
//! `HANDOVER_LONG=1` plays 2,000 orders instead of 200. Small days: `bootstrap/tests/cli/demo.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a broken promise panics with what it saw, and real processes run on real time"
)]

mod assets;

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use handover_tests::books::Books;
use handover_tests::process::program;
use serde_json::Value;

/// How long a day of 200 orders may take.
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

fn orders() -> i64 {
    if handover_tests::long() { 2_000 } else { 200 }
}

/// Plays a day of another seed each time and goes on serving; answers with the report and how long that took.
fn play(folder: &Path) -> (Demo, Value, Duration) {
    let [out, err] = ["out", "err"].map(|name| File::create(folder.join(name)).unwrap());
    let mut command = Command::new(program().unwrap());
    command.args(["demo", "--keep", "--output", "json", "--orders", &orders().to_string()]);
    command.env("TMPDIR", folder).current_dir(folder).stdin(Stdio::null());
    let begun = Instant::now();
    let mut demo = Demo(command.stdout(out).stderr(err).spawn().unwrap());
    let said = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    loop {
        if said("out").ends_with("}\n") {
            let report = serde_json::from_str(&said("out")).unwrap();
            println!("{} {}", said("err").lines().next().unwrap_or_default(), report_line(&report));
            return (demo, report, begun.elapsed());
        }
        let ended = demo.0.try_wait().unwrap();
        assert!(ended.is_none() && begun.elapsed() < 3 * A_DAY, "no verdict: {ended:?}\n{}", said("err"));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn report_line(report: &Value) -> String {
    format!("verdict: {}, figures: {}", report["verdict"], report["figures"])
}

#[tokio::test]
async fn a_market_day_is_kept_within_a_minute_and_another_judge_finds_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (mut demo, report, took) = play(folder.path());
    assert_eq!(report["verdict"], "kept", "{report:#}");
    assert!(orders() > 200 || took < A_DAY, "it took {took:?}");
    let sent = Command::new("kill").args(["-TERM", &demo.0.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(demo.0.wait().unwrap().code(), Some(0), "it stops as asked, and the verdict stands");

    let books = Books::open(&Path::new(report["folder"].as_str().unwrap()).join("handover.db")).await;
    assert_eq!(books.number("SELECT count(*) FROM orders").await, orders());
    assert_eq!(books.unrest().await.unwrap(), Vec::<String>::new());
    let explained = "SELECT message_key FROM dead_letters WHERE status = 'DISCARDED' AND note IS NOT NULL";
    assert_eq!(books.rows(explained).await.unwrap().len(), 1);
    // The one dead letter there is has its explanation.
    let mut broken = books.broken().await;
    broken.retain(|sentence| !sentence.starts_with("a dead letter nobody can explain: 1 times"));
    assert_eq!(broken, Vec::<String>::new());
    assert_eq!(assets::broken(&books).await, Vec::<String>::new());
    assert_eq!(assets::nothing_of(&books).await, Vec::<&str>::new());
    let unlisted = "SELECT count(*) FROM outbox_events e WHERE e.event_type = 'ORDER_REFUNDED'
        AND 1 <> (SELECT count(*) FROM listing_changes c WHERE c.event_id = e.event_id)";
    assert_eq!(books.number(unlisted).await, 0, "a refund frees the product in its seller's listing");
    assert_eq!(books.number("SELECT max(attempts) FROM event_consume_log").await, 1);
    assert_eq!(books.number("SELECT max(retry_count) FROM outbox_events").await, 0);
}
