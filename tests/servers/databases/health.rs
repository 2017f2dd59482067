//! Health of the server: the oldest transaction, and old row versions that are not removed yet.

use std::sync::Arc;
use std::time::Duration;

use handover_contract::eventually;
use handover_contract::samples::{event, start};
use handover_memory::ManualClock;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{DatabaseHealth, DatabaseMonitor, Store};
use handover_sql::{ServerOptions, SqlStore};
use handover_tests::servers::PASSWORD;
use handover_tests::servers::database::ServerKind;

use super::{Fixture, on_every_server};

on_every_server!(open_transaction_and_old_row_versions_are_shown_to_users_who_may_see_them);

fn store(url: &str) -> SqlStore {
    let options = ServerOptions::parse(url).expect("a valid URL");
    SqlStore::open_server(&options, Arc::new(ManualClock::new(start())), WakeupNotifier::default())
}

async fn open_transaction_and_old_row_versions_are_shown_to_users_who_may_see_them(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let server = fixture.database.server();
    let other = store(&fixture.database.url());
    let health = async || other.health().await.unwrap();
    let mut unit = fixture.store.begin().await.unwrap();
    unit.outbox().append(&[event("open", 1, 1)]).await.unwrap();
    eventually("the transaction is seen as one second old", async || {
        health().await.oldest_transaction.filter(|open| *open >= Duration::from_secs(1))
    })
    .await;
    let name = format!("observer_{}", fixture.database.name());
    let (create, drop_user) = match kind {
        ServerKind::MariaDb => (
            vec![
                format!("CREATE USER {name} IDENTIFIED BY '{PASSWORD}'"),
                format!("GRANT SELECT ON {}.* TO {name}", fixture.database.name()),
            ],
            format!("DROP USER {name}"),
        ),
        ServerKind::Postgres => {
            (vec![format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")], format!("DROP ROLE {name}"))
        }
    };
    for statement in &create {
        server.execute(statement).await.unwrap();
    }
    let observer = store(&fixture.database.url().replace("//handover:", &format!("//{name}:")));
    let shown = observer.health().await.unwrap();
    match kind {
        ServerKind::MariaDb => assert_eq!(shown, DatabaseHealth::default()),
        ServerKind::Postgres => {
            assert_eq!(shown.oldest_transaction, Some(Duration::ZERO), "it is of another user");
        }
    }
    observer.close().await;
    server.execute(&drop_user).await.unwrap();
    unit.commit().await.unwrap();
    match kind {
        // Other tests have transactions on this server.
        ServerKind::MariaDb => assert!(health().await.history_length.is_some()),
        ServerKind::Postgres => {
            assert_eq!(health().await.oldest_transaction, Some(Duration::ZERO));
            fixture.outside("UPDATE outbox_events SET last_error = 'again'").await.unwrap();
            eventually("the replaced row version is dead", async || {
                health().await.dead_rows.filter(|rows| *rows > 0)
            })
            .await;
        }
    }
    other.close().await;
}
