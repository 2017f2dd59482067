//! What the commands do.

use std::io::{self, Write};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use crate::cli::{Cli, Command, Common, Parts, ServeArgs, TokenArgs};
use crate::config::Config;
use crate::wiring::Database;
use crate::{Failure, Secrets, Service, edge, telemetry};

/// How long a stop may take; the rest of ten seconds is for ending the process.
pub const STOP_WITHIN: Duration = Duration::from_millis(9_500);

/// Does what the command line says.
pub async fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        None => serve(&cli.serve).await,
        Some(Command::Serve(arguments)) => serve(&arguments).await,
        Some(Command::Migrate(common)) => migrate(&common).await,
        Some(Command::Token(arguments)) => token(&arguments),
    }
}

async fn serve(arguments: &ServeArgs) -> Result<(), Failure> {
    let config = arguments.load()?;
    telemetry::install(&config.log);
    // Before anything is begun: a signal that comes early is not lost.
    let mut stopped = StopSignals::listen()?;
    let parts = Parts::named(&arguments.roles);
    let mut service = Service::start(&config, parts).await?;
    say(&greeting(&config, &service, parts))?;
    info!(database = %config.database.display(), %parts, "handover is ready");
    let name = tokio::select! {
        name = stopped.next() => name,
        failure = service.failed() => return Err(failure),
    };
    info!("{name}: stopping");
    tokio::select! {
        ended = service.stop(STOP_WITHIN) => ended?,
        name = stopped.next() => {
            let running = format!("what it was finishing when a second signal came ({name})");
            return Err(Failure::StillRunning { after_ms: 0, running });
        }
    }
    info!("stopped");
    Ok(())
}

async fn migrate(common: &Common) -> Result<(), Failure> {
    let config = common.load(&[])?;
    telemetry::install(&config.log);
    let database = Database::open(&config.database, &handover_application::Wake::default()).await?;
    let (version, _) =
        database.store().schema_version().await.map_err(Failure::database(&config.database))?;
    database.close().await;
    say(&format!("{} is at version {}\n", config.database.display(), version.unwrap_or_default()))
}

fn token(arguments: &TokenArgs) -> Result<(), Failure> {
    let config = arguments.common.load(&[])?;
    let token = edge::token(&Secrets::jwt(&config)?, arguments)?;
    say(&format!("{token}\n"))
}

/// Writes to stdout. Whoever closed it does not want to know.
fn say(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::System { what: "stdout cannot be written", cause })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn greeting(config: &Config, service: &Service, parts: Parts) -> String {
    let Some(address) = service.address() else {
        return format!("handover runs {parts} on {}, without an API\n", config.database.display());
    };
    let base = format!("http://{address}");
    // As it was started, so that the commands below work as they are from the same folder.
    let program = std::env::args().next().unwrap_or_else(|| "handover".to_owned());
    let same = if config.database.as_os_str() == "handover.db" {
        String::new()
    } else {
        format!(" --database sqlite://{}", config.database.display())
    };
    format!(
        r#"handover listens on {base}
orders and events are kept in {database}

Sell something, buy it, look at the order:
  seller="Authorization: Bearer $({program} token{same} --user 1)"
  buyer="Authorization: Bearer $({program} token{same} --user 2)"
  curl -s {base}/api/v1/products -H "$seller" -H 'Content-Type: application/json' -d '{{"title":"Desk lamp","price":88.50}}'
  curl -s {base}/api/v1/orders -H "$buyer" -H 'Content-Type: application/json' -d '{{"productId":1}}'
  curl -s {base}/api/v1/orders/1 -H "$buyer"
"#,
        database = config.database.display(),
    )
}

/// SIGTERM and SIGINT.
struct StopSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl StopSignals {
    fn listen() -> Result<StopSignals, Failure> {
        let on = |kind| signal(kind).map_err(|cause| Failure::System { what: "no signal handler", cause });
        Ok(StopSignals { terminate: on(SignalKind::terminate())?, interrupt: on(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
