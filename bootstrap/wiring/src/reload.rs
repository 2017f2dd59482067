//! SIGHUP: reads log level, public keys and secrets again. A start must follow for all other keys.

use handover_runtime::config::{Configuration, Sources};
use handover_runtime::telemetry::Telemetry;
use handover_runtime::{Explained, Explanation, Failure};

use crate::service::Service;
use crate::settings::{Config, GATEWAY_SECRET, PREVIOUS_GATEWAY_SECRET};

/// Reads the sources again and applies what can change while the service runs. After an error everything stays as it was.
/// Both results are logged.
pub fn reload(sources: &Sources, config: &mut Config, service: &mut Service, telemetry: &Telemetry) {
    let loaded = Config::load(sources).map_err(Failure::from).map(|read| with_changes(config, read));
    let replaced = loaded.and_then(|changed| service.replace_secrets(&changed).map(|()| changed));
    match replaced {
        Ok(changed) => {
            let keys = changed_keys(config, &changed);
            service.report_changed_settings(&Config::describe(sources), &keys);
            let keys = keys.join(" ");
            // Not `enabled!`: with a filter per layer, it may suppress the next line.
            let was_visible = config.log.lines().would_enable(module_path!(), &tracing::Level::INFO);
            *config = changed;
            log_reloaded(&keys, config, was_visible, telemetry);
        }
        Err(Failure::Config { errors }) => errors.iter().for_each(|error| log_refused(error.explanation())),
        Err(failure) => log_refused(failure.explanation()),
    }
}

/// The running configuration with what can change while the service runs.
fn with_changes(running: &Config, read: Config) -> Config {
    let mut changed = running.clone();
    changed.log.filter = read.log.filter;
    changed.auth = changed.auth.with_secrets_of(read.auth);
    changed.gateway_secret = read.gateway_secret;
    changed.previous_gateway_secret = read.previous_gateway_secret;
    changed
}

fn changed_keys(before: &Config, after: &Config) -> Vec<&'static str> {
    let level = (before.log.filter != after.log.filter).then_some("log.level");
    let gateway = (before.gateway_secret != after.gateway_secret).then_some(GATEWAY_SECRET);
    let previous_gateway =
        (before.previous_gateway_secret != after.previous_gateway_secret).then_some(PREVIOUS_GATEWAY_SECRET);
    let tokens = before.auth.changed_secrets(&after.auth);
    level.into_iter().chain(tokens).chain(gateway).chain(previous_gateway).collect()
}

/// Logs before the level changes, and after it if the line was not visible before.
fn log_reloaded(keys: &str, config: &Config, was_visible: bool, telemetry: &Telemetry) {
    let log = || {
        tracing::info!(
            changed = keys,
            "service: SIGHUP received; log level, JWKS file and secrets were read again, other keys need a restart"
        );
    };
    if was_visible {
        log();
    }
    telemetry.set_filter(config.log.lines());
    if !was_visible {
        log();
    }
}

fn log_refused(Explanation { what, why, remedy }: Explanation) {
    tracing::error!(error = what, why, remedy, "service: SIGHUP received; nothing was changed");
}
