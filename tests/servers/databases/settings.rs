//! Settings of the server, the database and the user: the connections of the store set those that they can set; a
//! process that serves refuses the others by name, and `doctor` reports them.

use std::sync::Arc;

use handover_contract::eventually;
use handover_contract::samples::{event, start};
use handover_memory::ManualClock;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{OutboxFilter, Store, StoreError, SystemFaultKind};
use handover_sql::{SchemaError, SqlStore};
use handover_tests::process::fresh;
use handover_tests::server_rigs::{open, shared};
use handover_tests::servers::database::{DatabaseServer, ServerKind};
use handover_tests::servers::{Durability, PASSWORD};
use marketplace_sql::SqlMarket;

use super::{append, on_every_server};

on_every_server!(settings_that_break_the_store_are_overridden_or_refused_by_name);

async fn settings_that_break_the_store_are_overridden_or_refused_by_name(kind: ServerKind) {
    // MariaDB has no settings of a database: those of the server would affect other tests.
    let server = match kind {
        ServerKind::MariaDb => DatabaseServer::start(kind, Durability::None).await.unwrap(),
        ServerKind::Postgres => Arc::clone(shared(kind).await),
    };
    overridden(&server).await;
    match kind {
        ServerKind::MariaDb => {
            let url = server.url("hostile", server.port()).replace("//handover:", "//clerk:");
            server.execute("SET GLOBAL max_allowed_packet = 65536").await.unwrap();
            refused(&url, "max_allowed_packet = 65536", "set max_allowed_packet to 1M or more");
            server.execute("SET GLOBAL max_allowed_packet = 16777216").await.unwrap();
            server.execute("SET GLOBAL read_only = 1").await.unwrap();
            refused(&url, "read_only = ON", "connect to the primary server");
        }
        ServerKind::Postgres => {
            let url = |database: &str| server.url(database, server.port());
            for (encoding, locale) in [("LATIN1", "C"), ("EUC_CN", "C"), ("SQL_ASCII", "C")] {
                let name = format!("in_{}", encoding.to_lowercase());
                let create = format!(
                    "CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE '{locale}' LC_CTYPE '{locale}' TEMPLATE template0"
                );
                server.execute(&create).await.unwrap();
                let remedy = "create a database with ENCODING 'UTF8'";
                refused(&url(&name), &format!("server_encoding = {encoding}"), remedy);
            }
            // A process that does not serve also connects, which may take longer than the limits of this database.
            server.execute("ALTER DATABASE hostile RESET ALL").await.unwrap();
            server.execute("ALTER DATABASE hostile SET session_replication_role = replica").await.unwrap();
            refused(&url("hostile"), "session_replication_role = replica", "reset the setting");
            server.execute("CREATE ROLE limited LOGIN CONNECTION LIMIT 1").await.unwrap();
            let url = url("postgres").replace("//handover:", "//limited:");
            let store = open(&url, Arc::new(ManualClock::new(start())), &WakeupNotifier::default());
            let unit = store.begin().await.unwrap();
            let error = store.begin().await.map(drop).unwrap_err();
            let fault = error.system_fault().map(|fault| fault.kind);
            assert_eq!(fault, Some(SystemFaultKind::Limit), "{error:?}");
            drop(unit);
        }
    }
}

/// Migrates and uses a database whose settings prevent it, except if each connection sets its own.
async fn overridden(server: &Arc<DatabaseServer>) {
    let (settings, url): (&[&str], _) = match server.kind() {
        ServerKind::MariaDb => (
            &[
                "CREATE DATABASE hostile CHARACTER SET latin1",
                // `init_connect` does not apply to administrators.
                "CREATE USER clerk IDENTIFIED BY '{PASSWORD}' WITH MAX_STATEMENT_TIME 0.02",
                "GRANT ALL ON hostile.* TO clerk",
                "SET GLOBAL init_connect = 'SET SESSION sql_select_limit = 1, sql_safe_updates = 1, autocommit = 0, \
                 tx_read_only = 1, completion_type = 1, max_statement_time = 0.02, sql_big_selects = 0, \
                 max_join_size = 1, wait_timeout = 1, lock_wait_timeout = 1, time_zone = ''+05:00'', \
                 character_set_client = latin1'",
            ],
            server.url("hostile", server.port()).replace("//handover:", "//clerk:"),
        ),
        ServerKind::Postgres => (
            &[
                "CREATE DATABASE hostile",
                "ALTER DATABASE hostile SET default_transaction_read_only = on",
                "ALTER DATABASE hostile SET default_transaction_isolation = 'serializable'",
                "ALTER DATABASE hostile SET statement_timeout = '20ms'",
                "ALTER DATABASE hostile SET lock_timeout = '20ms'",
                "ALTER DATABASE hostile SET idle_in_transaction_session_timeout = '20ms'",
                "ALTER DATABASE hostile SET enable_indexscan = off",
                "ALTER DATABASE hostile SET client_encoding = 'LATIN1'",
            ],
            server.url("hostile", server.port()),
        ),
    };
    for setting in settings {
        server.execute(&setting.replace("{PASSWORD}", PASSWORD)).await.unwrap();
    }
    if server.kind() == ServerKind::Postgres {
        // A client on a busy machine often needs more than 20 ms before it sets its own limits. PostgreSQL 13 does not have
        // this setting.
        let _ = server.execute("ALTER DATABASE hostile SET idle_session_timeout = '500ms'").await;
    }
    let store: SqlMarket = open(&url, Arc::new(ManualClock::new(start())), &WakeupNotifier::default());
    repeated("probe", async || store.probe().await).await;
    assert_eq!(repeated("settings", async || store.unsuitable_settings().await).await, []);
    repeated("migrations", async || match store.migrate().await {
        Ok(()) => Ok(()),
        Err(SchemaError::Store(error)) => Err(error),
        Err(error) => panic!("{error:?}"),
    })
    .await;
    let events = [event("e-1", 1, 1), event("e-2", 2, 1)];
    repeated("append", async || append(&store, &events).await).await;
    if server.kind() == ServerKind::Postgres {
        let sql_store: &SqlStore = &store;
        let mut view = repeated("view", async || sql_store.view().await).await;
        let kept =
            "SELECT count(*) AS n FROM pg_settings WHERE name LIKE '%timeout' AND setting IN ('20', '500')";
        let kept = view.fetch_one(kept, vec![]).await.unwrap().unwrap();
        assert_eq!(kept.int("n").unwrap(), 0, "a connection has time limits of the database");
    }
    let mut view = repeated("view", async || store.view().await).await;
    let rows = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 10).await.unwrap();
    assert_eq!(rows.len(), 2);
    // `close` waits for connections in use.
    drop(view);
    store.close().await;
}

/// Repeats an operation that a time limit of 20 ms may interrupt until a new connection has set its own limits. An
/// operation to which such a limit applies fails each time.
async fn repeated<T>(what: &str, work: impl AsyncFn() -> Result<T, StoreError>) -> T {
    eventually(what, async || match work().await {
        Ok(output) => Some(output),
        Err(StoreError::Transient(_) | StoreError::Unavailable(_)) => None,
        Err(error) => panic!("{what}: {error:?}"),
    })
    .await
}

/// `serve` and `migrate` end with an error that names the setting, and `doctor` reports it.
#[track_caller]
fn refused(url: &str, setting: &str, remedy: &str) {
    let run = |arguments: &[&str]| {
        let (_folder, launch) = fresh();
        let launch = launch
            .set("HANDOVER_DATABASE__URL", url)
            .set("HANDOVER_AUTH__JWT_SECRET", &"5f".repeat(32))
            .set("HANDOVER_GATEWAY__SECRET", &format!("whsec_{}", "5f".repeat(32)));
        launch.run(arguments).unwrap()
    };
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["migrate"]] {
        let (code, _, error) = run(command);
        assert_eq!(code, Some(1), "{command:?}: {error}");
        assert!(error.contains(setting) && error.contains(remedy), "{command:?}: {error}");
        assert!(!error.contains("unavailable"), "{command:?}: {error}");
    }
    let (_, report, error) = run(&["doctor", "--listen", "127.0.0.1:0"]);
    assert!(report.contains(setting) && report.contains(remedy), "{report}{error}");
}
