//! `serve`.

use std::pin::pin;

use handover_runtime::terminal::{say_later, warn};
use tracing::info;

use crate::cli::ServeArgs;
use handover_runtime::config::{Configuration, Sources};
use handover_runtime::roles::Roles;
use handover_runtime::signals::{STOP_WITHIN, Signal, Signals};
use handover_runtime::telemetry::{self, Telemetry};
use handover_runtime::{Failure, metrics};
use marketplace_wiring::settings::Config;
use marketplace_wiring::{Service, Starting, reload};

pub(super) async fn serve(arguments: &ServeArgs) -> Result<(), Failure> {
    let sources = arguments.sources();
    let config = match Config::load(&sources) {
        Ok(config) => config,
        Err(errors) => {
            warn(&Config::keys(), &sources);
            return Err(errors.into());
        }
    };
    let telemetry = telemetry::install(&config.log)?;
    for warning in Config::keys().warnings(&sources) {
        tracing::warn!("configuration: {warning}");
    }
    let ended = run(config, &sources, &arguments.roles(), &telemetry).await;
    telemetry.end().await;
    ended
}

async fn run(
    mut config: Config,
    sources: &Sources,
    roles: &Roles<Starting>,
    telemetry: &Telemetry,
) -> Result<(), Failure> {
    metrics::install(marketplace::METRICS);
    // The signal handlers are installed before the service starts, so that an early signal is not lost.
    let mut signals = Signals::listen()?;
    let mut service = Service::start(&config, roles).await?;
    service.report_settings(&Config::describe(sources));
    let mut greeting = pin!(greet(greeting(&config, &service, roles)));
    info!(database = %config.database, parts = %roles, "service: ready");
    let name = loop {
        let signal = tokio::select! {
            signal = signals.next() => signal,
            failure = &mut greeting => return Err(failure),
            failure = service.failed() => return Err(failure),
        };
        match signal {
            Signal::Stop(name) => break name,
            Signal::Reload => reload(sources, &mut config, &mut service, telemetry),
            Signal::Ignored(name) => info!("service: {name} received; ignored"),
        }
    };
    info!("service: {name} received; stopping");
    tokio::select! {
        ended = service.stop(STOP_WITHIN) => ended?,
        name = signals.next_stop() => {
            let running = format!("unfinished work (second signal: {name})");
            return Err(Failure::StillRunning { after_ms: 0, running });
        }
    }
    info!("service: stopped");
    Ok(())
}

/// Prints the greeting; returns only if this fails. A reader of stdout that stalls does not delay a stop.
async fn greet(text: String) -> Failure {
    match say_later(text).await {
        Ok(()) => std::future::pending().await,
        Err(failure) => failure.into(),
    }
}

fn greeting(config: &Config, service: &Service, roles: &Roles<Starting>) -> String {
    let Some(address) = service.address() else {
        let metrics = match service.metrics_address() {
            Some(address) => format!("; /metrics, /healthz and /readyz are on http://{address}"),
            None => String::new(),
        };
        return format!("handover runs {roles} on {}, without an API{metrics}\n", config.database);
    };
    let base = format!("http://{address}");
    // The path by which the program was started, so that the printed commands work unchanged in the same folder.
    let program = std::env::args().next().unwrap_or_else(|| "handover".to_owned());
    let database_flag = match config.database.file() {
        // With a database server, secrets and address are in the environment or in the configuration file.
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
{operators}database: {database}{new}
documentation of the API: {base}/docs

List a product, order it, read the order:
  seller="Authorization: Bearer $({program} token{database_flag} --user 1)"
  buyer="Authorization: Bearer $({program} token{database_flag} --user 2)"
  curl -s {base}/api/v1/products -H "$seller" -H 'Content-Type: application/json' -d '{{"title":"Desk lamp","price":88.50}}'
  curl -s {base}/api/v1/orders -H "$buyer" -H 'X-Idempotency-Key: lamp-1' -H 'Content-Type: application/json' -d '{{"productId":1}}'
  curl -s {base}/api/v1/orders/1 -H "$buyer"
"#,
        database = config.database,
        new = if service.created_database() { " (new: created by this start)" } else { "" },
    )
}
