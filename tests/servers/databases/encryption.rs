//! TLS connections and certificate checks.

use std::path::Path;
use std::sync::Arc;

use handover_contract::samples::{event, start};
use handover_memory::ManualClock;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Store, StoreError};
use handover_sql::{ServerOptions, SqlStore};
use handover_tests::servers::database::{DatabaseServer, ServerKind};
use handover_tests::servers::{Durability, certify};
use marketplace_sql::SqlMarket;

use super::{append, on_every_server};

on_every_server!(server_is_trusted_only_with_matching_certificate_of_configured_authority);

async fn server_is_trusted_only_with_matching_certificate_of_configured_authority(kind: ServerKind) {
    let server = DatabaseServer::start_encrypted(kind, Durability::None).await.unwrap();
    let database = server.database(None).await.unwrap();
    let open = |url: &str, authorities: Option<&Path>| {
        let options = ServerOptions::parse(url).unwrap();
        let options = authorities.into_iter().fold(options, ServerOptions::with_ca_certificates);
        SqlMarket::on(SqlStore::open_server(
            &options,
            Arc::new(ManualClock::new(start())),
            WakeupNotifier::default(),
        ))
    };
    let by_name = database.url_by_name();
    let authorities = server.authorities();
    let store = open(&by_name, Some(&authorities));
    store.migrate().await.unwrap();
    append(&store, &[event("secret", 1, 1)]).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    certify(folder.path()).unwrap();
    let other_authority = folder.path().join("ca.pem");
    let plain = match kind {
        ServerKind::MariaDb => format!("{by_name}?ssl-mode=DISABLED"),
        ServerKind::Postgres => format!("{by_name}?sslmode=disable"),
    };
    for (what, url, authorities) in [
        ("signed by another authority", &by_name, Some(other_authority.as_path())),
        ("issued for another host", &database.url(), Some(authorities.as_path())),
        ("not encrypted", &plain, None),
    ] {
        let refused = open(url, authorities).begin().await.map(drop);
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{what}: {refused:?}");
    }
}
