//! A dump of a database server that is taken while the service runs, restored into an empty database: the documented commands,
//! as `handover backup` is tested for database files.

use std::path::Path;
use std::process::{Command, Stdio};

use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use handover_tests::servers::database::{ServerKind, TestDatabase};
use handover_tests::snapshot::DatabaseSnapshot;
use tokio::task::JoinSet;

use crate::WITHIN;

handover_tests::on_pairs!([restored_dump_has_every_acknowledged_order_and_continues_its_events]:
    mariadb_and_database MariaDbAlone, postgres_and_database PostgresAlone);

const SELLER: i64 = 1;
const BUYER: i64 = 2;

async fn place_order(api: &Api) -> i64 {
    let product = api.list_product(SELLER, "Before the dump").await.unwrap().id("productId");
    api.place_order(BUYER, product).await.unwrap().id("orderId")
}

async fn restored_dump_has_every_acknowledged_order_and_continues_its_events(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let server = deployment.launch().start().unwrap();
    let api = Api::of(&server);
    let mut orders = Vec::new();
    for _ in 0..10 {
        orders.push(place_order(&api).await);
    }
    let mut load = JoinSet::new();
    let meanwhile = api.clone();
    load.spawn(async move {
        loop {
            place_order(&meanwhile).await;
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dump.sql");
    let original = deployment.database();
    tokio::task::block_in_place(|| dump(original, &file));
    load.shutdown().await;
    drop(server);

    let restored = original.server().database(None).await.unwrap();
    tokio::task::block_in_place(|| restore(&restored, &file));
    let launch = deployment.launch().set("HANDOVER_DATABASE__URL", &restored.url());
    let (_, report, _) = launch.run(&["doctor", "--listen", "127.0.0.1:0"]).unwrap();
    assert!(report.contains("ok    schema"), "the restored schema differs: {report}");
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    for order in &orders {
        let found = api.order(BUYER, *order).await.unwrap();
        assert_eq!(found.outcome(), (200, "00000"), "{order}: {found:?}");
    }
    let snapshot = DatabaseSnapshot::on(&restored.url());
    let open = "SELECT count(*) FROM orders WHERE NOT EXISTS \
                (SELECT 1 FROM listing_changes WHERE listing_changes.order_id = orders.id)";
    eventually(WITHIN, async || match snapshot.count(open).await? {
        0 => Ok(()),
        open => Err(format!("{open} orders have no effect yet").into()),
    })
    .await;
    place_order(&api).await;
    let (code, out, err) = launch.run(&["reconcile"]).unwrap();
    assert_eq!(code, Some(0), "{out}{err}");
}

fn dump(database: &TestDatabase, file: &Path) {
    let name = database.name();
    let command = match database.server().kind() {
        ServerKind::MariaDb => client("mariadb-dump", database, &["--single-transaction", name]),
        ServerKind::Postgres => client("pg_dump", database, &["--no-owner"]),
    };
    run({ command }.stdout(std::fs::File::create(file).unwrap()));
}

fn restore(database: &TestDatabase, file: &Path) {
    let command = match database.server().kind() {
        ServerKind::MariaDb => client("mariadb", database, &[database.name()]),
        ServerKind::Postgres => client("psql", database, &["--set=ON_ERROR_STOP=1", "--quiet"]),
    };
    run({ command }.stdin(std::fs::File::open(file).unwrap()).stdout(Stdio::null()));
}

/// A client program of the server, connected to it.
fn client(program: &str, database: &TestDatabase, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    match database.server().kind() {
        ServerKind::MariaDb => command
            .args(["--no-defaults", "--host=127.0.0.1", "--user=handover"])
            .arg(format!("--port={}", database.server().port()))
            .arg(format!("--password={}", handover_tests::servers::PASSWORD)),
        ServerKind::Postgres => command.arg(format!("--dbname={}", database.url())),
    };
    command.args(arguments);
    command
}

fn run(command: &mut Command) {
    let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
