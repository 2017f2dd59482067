//! Checks of the secrets: set where required, not placeholders, not readable by other users.

use std::path::Path;

use crate::secrets::Secrets;
use crate::settings::Config;
use handover_runtime::Failure;
use handover_runtime::config::{Configuration, Origin, Shown, Sources};
use handover_runtime::doctor::Check;
use handover_runtime::secrets::{Source, exposed, is_placeholder};

const NAME: &str = "secrets";

/// Checks `auth.jwt-secret`, `gateway.secret`, the requirements outside loopback, and the files that contain secrets.
pub(super) fn checks(config: &Config, sources: &Sources) -> Vec<Check> {
    let mut checks = Vec::new();
    match Secrets::allow(config, &config.listens()) {
        // The loop over the secrets reports missing secrets and placeholders.
        Ok(()) => {}
        Err(failure) if is_shared_secret_missing(&failure) => {}
        Err(failure) => checks.push(Check::failed(NAME, &failure)),
    }
    let mut notes = Vec::new();
    for (key, source) in Secrets::look(config) {
        match source {
            Err(failure) => checks.push(Check::failed(NAME, &failure)),
            Ok(Source::Set(secret)) if is_placeholder(&secret) => checks.push(Check::warn(
                NAME,
                format!("{key} looks like a placeholder"),
                "anybody who guesses the secret can sign in as any user or confirm payments",
                "set random characters (openssl rand -hex 32; for gateway.secret echo whsec_$(openssl rand -base64 32))",
            )),
            Ok(Source::Set(_)) => notes.push(format!("{key} is set")),
            Ok(Source::File(path)) => notes.push(format!("{key} is stored in {}", path.display())),
            Ok(Source::NotGenerated) => notes.push(format!("{key} is generated at the first start")),
        }
    }
    if let Some(path) = exposed_file(sources) {
        checks.push(Check::warn(
            NAME,
            format!("{path} contains a secret, and other users can read it"),
            "anybody who reads the secret can sign in as any user or confirm payments",
            &format!("run `chmod 600 {path}`, and set new secrets if another user may have read the file"),
        ));
    }
    if checks.is_empty() {
        checks.push(Check::ok(NAME, notes.join("; ")));
    }
    checks
}

fn is_shared_secret_missing(failure: &Failure) -> bool {
    matches!(failure, Failure::SharedSecretMissing { .. })
}

/// The configuration file, if it contains a secret and other users can read it.
fn exposed_file(sources: &Sources) -> Option<String> {
    Config::describe(sources).settings.into_iter().find_map(|setting| match (setting.value, setting.origin) {
        (Shown::Hidden, Origin::File(path)) if others_can_read(&path) => Some(path.display().to_string()),
        (Shown::Hidden | Shown::Generated | Shown::Unset | Shown::Value { .. }, _) => None,
    })
}

fn others_can_read(path: &Path) -> bool {
    exposed(path).unwrap_or(false)
}
