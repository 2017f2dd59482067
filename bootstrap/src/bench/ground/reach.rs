//! Reaching database and broker without the service, and what of theirs a bench may use.

use std::path::Path;

use handover_application::ports::BrokerError;
use handover_bare::{BareQueue, Session};
use handover_rabbitmq::RabbitSettings;
use tempfile::TempDir;

use crate::Failure;
use crate::bench::stop::{failed, odd, refuse};
use crate::config::Written;

/// A database with tables is somebody's.
pub(super) async fn refuse_used(written: &Written) -> Result<(), Failure> {
    let tables = session(written).await?.tables().await.map_err(failed("the tables cannot be listed"))?;
    if tables.is_empty() {
        return Ok(());
    }
    let some = tables.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
    let what =
        format!("the database has {} tables ({some}, ...), and bench drops its own at the end", tables.len());
    let remedy = "make an empty one for it (CREATE DATABASE handover_bench) and name that with --database";
    Err(refuse(&what, remedy))
}

/// A folder that goes with the bench, on the disk of the database that was named.
pub(super) fn passing_folder(path: &Path, is_default: bool) -> Result<TempDir, Failure> {
    if !is_default && std::fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        let what = format!("the database {} is in use already", path.display());
        return Err(refuse(
            &what,
            "name a file that does not exist, or none: bench makes its own and removes it",
        ));
    }
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("handover-bench-");
    let beside = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = match beside {
        Some(folder) if !is_default => builder.tempdir_in(folder),
        Some(_) | None => builder.tempdir(),
    };
    made.map_err(|cause| Failure::System { what: "no folder for the bench", cause })
}

/// A plain connection to the database.
pub(super) async fn session(written: &Written) -> Result<Session, Failure> {
    let connecting = Session::connect(&written.database, written.database_authorities.as_deref());
    connecting.await.map_err(failed("the database cannot be reached"))
}

/// A plain connection to RabbitMQ, of several hosts to the first.
pub(super) async fn queue(written: &Written) -> Result<BareQueue, Failure> {
    let mut settings = RabbitSettings::parse(&written.broker).map_err(odd)?;
    if let Some(path) = &written.broker_authorities {
        let authorities = std::fs::read_to_string(path)
            .map_err(|cause| Failure::System { what: "broker.ca-file cannot be read", cause })?;
        settings = settings.trusting(authorities).map_err(odd)?;
    }
    let unreachable = |cause: BrokerError| odd(format!("RabbitMQ cannot be reached: {cause}"));
    let connection = handover_rabbitmq::unsupervised_connection(settings).await.map_err(unreachable)?;
    BareQueue::on(connection).await.map_err(failed("RabbitMQ cannot be reached"))
}
