//! Public keys of another token issuer (`auth.jwks-file`). They are read at startup and again whenever the file changes,
//! so keys can be rotated without a restart or a signal.

use std::path::PathBuf;
use std::time::Duration;

use handover_http::{KeySet, Tokens};
use marketplace::App;

use crate::MarketFailure;
use crate::config::{Config, read_keys};

/// Interval at which the file is read.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Reads the configured key file, if `auth.jwks-file` is set.
pub(crate) fn load(config: &Config) -> Result<Option<KeySet>, MarketFailure> {
    let Some(path) = &config.auth.keys else { return Ok(None) };
    let refused = |reason| MarketFailure::SecretRefused { key: "auth.jwks-file", reason };
    read_keys(path).map(Some).map_err(refused)
}

/// Watches the file and verifies tokens with its current keys as long as the service runs. A file that cannot be parsed
/// is logged once, and the previous keys stay in use.
pub(crate) fn watch(app: &App, tokens: Tokens, path: PathBuf) {
    let clock = app.tx.clock().clone();
    let stopping = app.tx.stopping().clone();
    let mut known = std::fs::read(&path).ok();
    let watching = async move {
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                () = clock.sleep(POLL_INTERVAL) => {}
            }
            let found = std::fs::read(&path).ok();
            if found == known {
                continue;
            }
            known = found;
            match read_keys(&path) {
                Ok(keys) => {
                    let ids: Vec<&str> = keys.ids().collect();
                    tracing::info!(file = %path.display(), keys = ids.join(" "), "auth: JWKS reloaded");
                    tokens.replace_keys(keys);
                }
                Err(why) => {
                    tracing::error!(file = %path.display(), why, "auth: cannot load the JWKS file; keeping the previous keys");
                }
            }
        }
    };
    drop(app.tx.tasks().for_background_tasks().spawn(watching));
}
