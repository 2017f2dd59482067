//! Servers that are killed, stopped and started again.

use std::num::NonZeroU32;
use std::sync::Arc;

use handover_contract::TIMEOUT;
use handover_contract::samples::{event, start};
use handover_events::EventId;
use handover_memory::ManualClock;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Store, StoreError, SystemFaultKind, UnitOfWork as _};
use handover_sql::{ServerOptions, SqlStore};
use handover_tests::server_rigs::{migrated, open};
use handover_tests::servers::Durability;
use handover_tests::servers::database::{DatabaseServer, ServerKind, TestDatabase};
use marketplace_sql::SqlMarket;

use super::{append, on_every_server};

on_every_server!(
    committed_rows_survive_killed_server,
    commit_outcome_is_unknown_when_server_stops,
    connection_on_which_a_write_is_refused_as_read_only_is_replaced,
);

/// A private server with a migrated database.
async fn private_server(kind: ServerKind) -> (Arc<DatabaseServer>, TestDatabase, SqlMarket) {
    let server = DatabaseServer::start(kind, Durability::Full).await.unwrap();
    let database = server.database(None).await.unwrap();
    let store = open(&database.url(), Arc::new(ManualClock::new(start())), &WakeupNotifier::default());
    store.migrate().await.unwrap();
    (server, database, store)
}

fn ids(names: &[String]) -> Vec<EventId> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

async fn committed_rows_survive_killed_server(kind: ServerKind) {
    let (server, _database, store) = private_server(kind).await;
    let mut committed = Vec::new();
    for round in 0..2 {
        for n in 0..20 {
            let name = format!("{round}-{n}");
            append(&store, &[event(&name, n, round)]).await.unwrap();
            committed.push(name);
        }
        let mut open = store.begin().await.unwrap();
        open.outbox().append(&[event(&format!("open-{round}"), 1, 1)]).await.unwrap();
        server.kill().unwrap();
        let lost = open.outbox().append(&[event(&format!("lost-{round}"), 1, 1)]).await;
        assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
        let unavailable = store.begin().await.map(drop);
        assert!(matches!(unavailable, Err(StoreError::Unavailable(_))), "{unavailable:?}");
        server.restart().await.unwrap();
        append(&store, &[event(&format!("back-{round}"), 1, 1)]).await.unwrap();
        committed.push(format!("back-{round}"));
        let found =
            store.view().await.unwrap().outbox_view().outbox_by_event(&ids(&committed)).await.unwrap();
        assert_eq!(found.len(), committed.len(), "a committed event was lost");
        let undone = [format!("open-{round}"), format!("lost-{round}")];
        assert!(
            store
                .view()
                .await
                .unwrap()
                .outbox_view()
                .outbox_by_event(&ids(&undone))
                .await
                .unwrap()
                .is_empty()
        );
    }
}

async fn commit_outcome_is_unknown_when_server_stops(kind: ServerKind) {
    let (server, _database, store) = private_server(kind).await;
    let mut unit = store.begin().await.unwrap();
    unit.outbox().append(&[event("maybe", 1, 1)]).await.unwrap();
    server.pause().unwrap();
    let outcome = tokio::time::timeout(TIMEOUT, unit.commit()).await.expect("a bounded wait");
    assert!(matches!(outcome, Err(StoreError::CommitUnknown(_))), "{outcome:?}");
    server.resume().unwrap();
    append(&store, &[event("after", 2, 1)]).await.unwrap();
    let found = store
        .view()
        .await
        .unwrap()
        .outbox_view()
        .outbox_by_event(&ids(&["maybe".into(), "after".into()]))
        .await
        .unwrap();
    assert!(found.iter().any(|row| row.event_id.as_str() == "after"));
}

/// After a failover, pooled connections can lead to the former primary server, and new ones to the present one.
async fn connection_on_which_a_write_is_refused_as_read_only_is_replaced(kind: ServerKind) {
    let database = migrated(kind).await;
    let options = ServerOptions::parse(&database.url()).unwrap().connections(NonZeroU32::MIN);
    let clock = Arc::new(ManualClock::new(start()));
    let store = SqlStore::open_server(&options, clock, WakeupNotifier::default());
    let mut unit = store.begin().await.unwrap();
    let read_only = match kind {
        ServerKind::MariaDb => "SET SESSION TRANSACTION READ ONLY",
        ServerKind::Postgres => "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    };
    unit.execute(read_only, Vec::new()).await.unwrap();
    unit.commit().await.unwrap();
    let append = async |id: &str| {
        let mut unit = store.begin().await?;
        unit.outbox().append(&[event(id, 1, 1)]).await?;
        unit.commit().await
    };
    let refused = append("refused").await.unwrap_err();
    assert_eq!(
        refused.system_fault().map(|fault| fault.kind),
        Some(SystemFaultKind::ReadOnly),
        "{refused:?}"
    );
    append("accepted").await.unwrap();
    store.close().await;
}
