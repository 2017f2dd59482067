//! Whether the secrets protect what they should.

use std::path::Path;

use super::report::Check;
use marketplace_wiring::config::{Config, Origin, Shown, Sources};
use marketplace_wiring::secrets::Source;
use marketplace_wiring::{Failure, Secrets};

const NAME: &str = "secrets";

/// Looks at both, at the rule for listening outside loopback, and at files that hold them.
pub(super) fn checks(config: &Config, sources: &Sources) -> Vec<Check> {
    let mut checks = Vec::new();
    match Secrets::allow(config, &config.listens()) {
        // Each that is missing, or is a placeholder, is told below.
        Ok(()) | Err(Failure::SecretShared { .. }) => {}
        Err(failure) => checks.push(Check::failed(NAME, &failure)),
    }
    let mut fine = Vec::new();
    for (key, source) in Secrets::look(config) {
        match source {
            Err(failure) => checks.push(Check::failed(NAME, &failure)),
            Ok(Source::Set(secret)) if secret.is_placeholder() => checks.push(Check::warn(
                NAME,
                format!("{key} looks like a placeholder"),
                "who guesses it signs in as anybody, or confirms payments",
                "set random characters (openssl rand -hex 32; for gateway.secret echo whsec_$(openssl rand -base64 32))",
            )),
            Ok(Source::Set(_)) => fine.push(format!("{key} is set")),
            Ok(Source::Kept(path)) => fine.push(format!("{key} is kept in {}", path.display())),
            Ok(Source::ToBeMade) => fine.push(format!("{key} is made at the first start")),
        }
    }
    if let Some(path) = exposed_file(sources) {
        checks.push(Check::warn(
            NAME,
            format!("{path} holds a secret, and other users can read it"),
            "who reads it signs in as anybody, or confirms payments",
            &format!("chmod 600 {path}, and set new secrets if it may have been read"),
        ));
    }
    if checks.is_empty() {
        checks.push(Check::ok(NAME, fine.join("; ")));
    }
    checks
}

/// The configuration file, if it holds a secret that others can read.
fn exposed_file(sources: &Sources) -> Option<String> {
    Config::describe(sources).settings.into_iter().find_map(|setting| match (setting.value, setting.origin) {
        (Shown::Hidden, Origin::File(path)) if others_can_read(&path) => Some(path.display().to_string()),
        (Shown::Hidden | Shown::Made | Shown::Unset | Shown::Value { .. }, _) => None,
    })
}

fn others_can_read(path: &Path) -> bool {
    marketplace_wiring::secrets::exposed(path).unwrap_or(false)
}
