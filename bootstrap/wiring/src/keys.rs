//! The public keys of who else issues tokens (`auth.jwks-file`): read at the start, and again whenever the file changes,
//! so that keys are exchanged without a restart and without a signal.

use std::path::PathBuf;
use std::time::Duration;

use marketplace::App;
use marketplace_http::{KeySet, Tokens};

use crate::Failure;
use crate::config::{Config, read_keys};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The keys of this configuration, if it names any.
pub(crate) fn configured(config: &Config) -> Result<Option<KeySet>, Failure> {
    let Some(path) = &config.auth.keys else { return Ok(None) };
    let refused = |why| Failure::SecretRefused { key: "auth.jwks-file", why };
    read_keys(path).map(Some).map_err(refused)
}

/// Has these tokens verified with whatever the file holds, for as long as the service runs. A file that cannot be used
/// changes nothing, and is told of once.
pub(crate) fn follow(app: &App, tokens: Tokens, path: PathBuf) {
    let (clock, stopping) = (app.tx.clock.clone(), app.tx.tasks.stopping().clone());
    let mut known = std::fs::read(&path).ok();
    let following = async move {
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                () = clock.sleep(LOOK_EVERY) => {}
            }
            let found = std::fs::read(&path).ok();
            if found == known {
                continue;
            }
            known = found;
            match read_keys(&path) {
                Ok(keys) => {
                    let ids: Vec<&str> = keys.ids().collect();
                    tracing::info!(file = %path.display(), keys = ids.join(" "), "tokens are verified with new keys");
                    tokens.trust(keys);
                }
                Err(why) => {
                    tracing::error!(file = %path.display(), why, "the keys for tokens cannot be used; the old ones stay");
                }
            }
        }
    };
    drop(app.tx.tasks.of_its_own().spawn(following));
}
