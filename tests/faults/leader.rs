//! The leader of the periodic jobs among several processes.

use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::{eventually, tail};
use handover_tests::snapshot::DatabaseSnapshot;

use crate::WITHIN;

handover_tests::on_pairs!(
    [another_process_leads_after_kill_of_the_leader_and_releases_the_lease_when_it_stops]:
    postgres_and_database PostgresAlone,
    #[ignore = "long: CI runs this test on PostgreSQL"] mariadb_and_database MariaDbAlone,
);

/// Waits until the leader of this epoch has recorded a successful run of a job.
async fn leads_and_runs(snapshot: &DatabaseSnapshot, epoch: i64) {
    eventually(WITHIN, async || {
        let sql = "SELECT count(*) FROM outbox_leaders WHERE leader IS NOT NULL AND epoch = ";
        let leads = snapshot.number(&format!("{sql}{epoch}")).await;
        let runs = "SELECT count(*) FROM outbox_jobs WHERE job = 'OrderTimeoutSweep' AND last_success_time IS NOT NULL";
        match (leads, snapshot.number(runs).await) {
            (2, 1) => Ok(()),
            other => Err(format!("epoch {epoch}: {other:?}").into()),
        }
    })
    .await;
}

async fn another_process_leads_after_kill_of_the_leader_and_releases_the_lease_when_it_stops(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let first = deployment.launch().start().unwrap();
    leads_and_runs(&snapshot, 1).await;
    let launch = deployment.launch();
    let second = launch.start().unwrap();
    snapshot.change("DELETE FROM outbox_jobs").await;
    first.kill().unwrap();
    leads_and_runs(&snapshot, 2).await;
    let (status, _) = second.terminate(WITHIN).unwrap();
    assert_eq!(status.code(), Some(0), "{}", tail(&launch.log()));
    assert_eq!(
        snapshot.number("SELECT count(*) FROM outbox_leaders WHERE leader IS NULL AND epoch = 2").await,
        2
    );
}
