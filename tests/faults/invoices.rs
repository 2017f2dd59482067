//! Invoices: processes that generate the same invoice are killed at any moment, and a service catches up on missed months.

use std::time::{Duration, Instant};

use handover_tests::deployment::Deployment;
use handover_tests::deployment::Pair;
use handover_tests::long;
use handover_tests::process::{Launch, eventually};
use handover_tests::random::RandomSource;
use handover_tests::snapshot::DatabaseSnapshot;

use crate::WITHIN;

handover_tests::on_pairs!([invoice_is_generated_once_by_processes_that_are_killed]:
    sqlite_and_database SqliteAlone, mariadb_and_database MariaDbAlone, postgres_and_database PostgresAlone);

/// Number of completed orders in each month.
const ORDERS: u64 = 500;

/// Inserts completed orders over 88.50 of tenant 1, as an earlier version left them.
async fn complete_orders(snapshot: &DatabaseSnapshot, month: u64, period: &str) {
    let at = format!("'{period}-15 10:30:00.000001'");
    let row =
        |id: u64| format!("({id}, 'no-{id}', 1, {id}, 7, 8, 'completed', 8850, 8850, 4, {at}, {at}, {at})");
    let rows: Vec<String> = (0..ORDERS).map(|number| row(month * ORDERS + number + 1)).collect();
    let insert = format!(
        "INSERT INTO orders (id, order_no, tenant_id, product_id, buyer_id, seller_id, status, total_minor, \
         payable_minor, version, create_time, complete_time, update_time) VALUES {}",
        rows.join(", ")
    );
    assert_eq!(snapshot.change(&insert).await, ORDERS);
}

fn generate(launch: &Launch, period: &str) {
    let (code, out, err) = launch.run(&["invoice", "generate", "--period", period]).unwrap();
    assert_eq!(code, Some(0), "{out}{err}");
}

/// The invoice exists once, complete, and is announced once.
async fn assert_generated_once(snapshot: &DatabaseSnapshot, period: &str) {
    let invoice = format!(
        "SELECT id FROM invoices WHERE tenant_id = 1 AND period = '{period}' AND order_count = 500 \
         AND total_minor = 110500"
    );
    let ids = snapshot.rows(&invoice).await.unwrap();
    assert_eq!(ids.len(), 1, "{period}: {ids:?}");
    for (what, expected, sql) in [
        ("lines", 500, format!("SELECT count(*) FROM invoice_lines WHERE invoice_id = {}", ids[0])),
        ("fees", 110_500, format!("SELECT sum(fee_minor) FROM invoice_lines WHERE invoice_id = {}", ids[0])),
        (
            "events",
            1,
            format!(
                "SELECT count(*) FROM outbox_events WHERE event_type = 'INVOICE_GENERATED' AND aggregate_id = {}",
                ids[0]
            ),
        ),
    ] {
        assert_eq!(snapshot.number(&sql).await, expected, "{what} of {period}");
    }
}

async fn invoice_is_generated_once_by_processes_that_are_killed(pair: Pair) {
    let random = RandomSource::of_test(&format!("killed invoices on {pair:?}")).stream("killer");
    let deployment = Deployment::start(pair).await;
    let launches = [deployment.launch(), deployment.launch()];
    let snapshot = deployment.snapshot().await;
    let rounds = if long() { 20 } else { 7 };
    let periods: Vec<String> =
        (0..=rounds + 1).map(|month| format!("{}-{:02}", 2020 + month / 12, month % 12 + 1)).collect();
    for (month, period) in (0..).zip(&periods) {
        complete_orders(&snapshot, month, period).await;
    }
    let begun = Instant::now();
    generate(&launches[0], &periods[0]);
    let complete = u64::try_from(begun.elapsed().as_millis()).unwrap();
    for period in &periods[1..=rounds] {
        let mut running = launches
            .each_ref()
            .map(|launch| launch.spawn(&["invoice", "generate", "--period", period]).unwrap());
        tokio::time::sleep(random.millis(0..complete)).await;
        running[0].kill().unwrap();
        for process in &mut running {
            process.wait().unwrap();
        }
        generate(&launches[1], period);
    }
    // The last month is left to the job.
    let by_job = launches[0]
        .clone()
        .set("HANDOVER_INVOICE__FROM", "2020-01")
        .set("HANDOVER_INVOICE__GENERATE_AFTER", "1ms");
    let mut server = by_job.start().unwrap();
    eventually(WITHIN, async || match snapshot.count("SELECT count(*) FROM invoices").await? {
        generated if generated == i64::try_from(periods.len())? => Ok(()),
        generated => Err(format!("{generated} invoices").into()),
    })
    .await;
    assert!(server.ended().unwrap().is_none());
    for period in &periods {
        assert_generated_once(&snapshot, period).await;
    }
    server.terminate(Duration::from_secs(30)).unwrap();
}
