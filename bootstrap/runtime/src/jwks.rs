//! Public keys of another token issuer (`auth.jwks-file`). They are read at startup and again whenever the file changes,
//! so keys can be rotated without a restart or a signal.

use std::path::PathBuf;
use std::time::Duration;

use handover_http::{KeySet, Tokens};
use handover_outbox::Outbox;

use crate::settings::{AuthConfig, read_keys};

/// Interval at which the file is read.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Reads the configured key file, if `auth.jwks-file` is set.
///
/// # Errors
/// The file cannot be read or parsed; the text is for the user.
pub fn load(auth: &AuthConfig) -> Result<Option<KeySet>, String> {
    auth.keys.as_deref().map(read_keys).transpose()
}

/// Watches the file and verifies tokens with its current keys as long as the service runs. A file that cannot be parsed
/// is logged once, and the previous keys stay in use.
pub fn watch(outbox: &Outbox, tokens: Tokens, path: PathBuf) {
    let clock = outbox.tx.clock().clone();
    let stopping = outbox.stopping().clone();
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
    drop(outbox.tasks().for_background_tasks().spawn(watching));
}
