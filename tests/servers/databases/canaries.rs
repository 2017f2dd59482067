//! Test of the leak check in server files: a row that was just committed is found.

use std::time::SystemTime;

use handover_tests::canary::Canaries;
use handover_tests::servers::Durability;
use handover_tests::servers::database::{DatabaseServer, ServerKind};

const SECRET: &str = "a canary that was written into a table";

async fn assert_committed_row_is_found(kind: ServerKind) {
    let since = SystemTime::now();
    let server = DatabaseServer::start(kind, Durability::Full).await.unwrap();
    let mut canaries = Canaries::standard();
    canaries.secret("the secret", SECRET);
    assert_eq!(canaries.in_server(server.folder(), since), []);
    let named = match kind {
        ServerKind::MariaDb => "mysql.leaks",
        ServerKind::Postgres => "leaks",
    };
    server.execute(&format!("CREATE TABLE {named} (leaked TEXT)")).await.unwrap();
    server
        .execute(&format!("INSERT INTO {named} VALUES (lower('{}'))", SECRET.to_uppercase()))
        .await
        .unwrap();
    let leaks = canaries.in_server(server.folder(), since);
    assert!(leaks.iter().any(|leak| leak.what == "the secret"), "{leaks:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_secret_is_found_in_files_of_mariadb() {
    assert_committed_row_is_found(ServerKind::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_secret_is_found_in_files_of_postgres() {
    assert_committed_row_is_found(ServerKind::Postgres).await;
}
