//! `serve`.

use marketplace_wiring::Parts;
use marketplace_wiring::terminal::say;
use tracing::info;

use crate::cli::ServeArgs;
use marketplace_wiring::config::Config;
use marketplace_wiring::signals::{STOP_WITHIN, StopSignals};
use marketplace_wiring::{Failure, Service, metrics, telemetry};

pub(super) async fn serve(arguments: &ServeArgs) -> Result<(), Failure> {
    let config = arguments.load()?;
    let telemetry = telemetry::install(&config.log);
    let ended = run(&config, arguments).await;
    telemetry.end().await;
    ended
}

async fn run(config: &Config, arguments: &ServeArgs) -> Result<(), Failure> {
    metrics::install();
    // Before anything is begun: a signal that comes early is not lost.
    let mut stopped = StopSignals::listen()?;
    let parts = arguments.parts();
    let mut service = Service::start(config, parts).await?;
    say(&greeting(config, &service, parts))?;
    info!(database = %config.database, %parts, "handover is ready");
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

fn greeting(config: &Config, service: &Service, parts: Parts) -> String {
    let Some(address) = service.address() else {
        return format!("handover runs {parts} on {}, without an API\n", config.database);
    };
    let base = format!("http://{address}");
    // As it was started, so that the commands below work as they are from the same folder.
    let program = std::env::args().next().unwrap_or_else(|| "handover".to_owned());
    let same = match config.database.file() {
        // On a server the secrets are set, and so is what else it takes.
        None => String::new(),
        Some(file) if file.as_os_str() == "handover.db" => String::new(),
        Some(file) => format!(" --database sqlite://{}", file.display()),
    };
    let operators = match service.operators_address() {
        Some(address) => format!("operators' calls and /metrics are on http://{address}\n"),
        None => String::new(),
    };
    format!(
        r#"handover listens on {base}
{operators}orders and events are kept in {database}

Sell something, buy it, look at the order:
  seller="Authorization: Bearer $({program} token{same} --user 1)"
  buyer="Authorization: Bearer $({program} token{same} --user 2)"
  curl -s {base}/api/v1/products -H "$seller" -H 'Content-Type: application/json' -d '{{"title":"Desk lamp","price":88.50}}'
  curl -s {base}/api/v1/orders -H "$buyer" -H 'X-Idempotency-Key: lamp-1' -H 'Content-Type: application/json' -d '{{"productId":1}}'
  curl -s {base}/api/v1/orders/1 -H "$buyer"
"#,
        database = config.database,
    )
}
