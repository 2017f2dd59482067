//! Whether the secrets protect what they should.

use std::collections::BTreeSet;
use std::path::Path;

use super::report::Check;
use crate::config::{Config, Origin, Shown, Sources};
use crate::secrets::Source;
use crate::{Failure, Secrets};

const NAME: &str = "secrets";
/// Random text of 32 characters has more kinds of them than this; `changeme` typed four times has not.
const FEW: usize = 9;

/// Looks at both, at the rule for listening outside loopback, and at files that hold them.
pub(super) fn checks(config: &Config, sources: &Sources) -> Vec<Check> {
    let mut checks = Vec::new();
    match Secrets::allow(config, Some(config.listen)) {
        // Each that is missing is told below.
        Ok(()) | Err(Failure::SecretShared { .. }) => {}
        Err(failure) => checks.push(Check::failed(NAME, &failure)),
    }
    let mut fine = Vec::new();
    for (key, source) in Secrets::look(config) {
        match source {
            Err(failure) => checks.push(Check::failed(NAME, &failure)),
            Ok(Source::Set(secret)) if kinds(secret.reveal()) < FEW => checks.push(Check::warn(
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

fn kinds(secret: &str) -> usize {
    secret.trim_start_matches("whsec_").chars().collect::<BTreeSet<char>>().len()
}

/// The configuration file, if it holds a secret that others can read.
fn exposed_file(sources: &Sources) -> Option<String> {
    let settings = Config::describe(sources).ok()?;
    settings.into_iter().find_map(|setting| match (setting.value, setting.origin) {
        (Shown::Hidden, Origin::File(path)) if others_can_read(&path) => Some(path.display().to_string()),
        (Shown::Hidden | Shown::Made | Shown::Unset | Shown::Value { .. }, _) => None,
    })
}

fn others_can_read(path: &Path) -> bool {
    crate::secrets::exposed(path).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_have_few_kinds_of_characters_and_random_text_many() {
        assert!(kinds(&"changeme".repeat(4)) < FEW);
        assert!(kinds(&"a".repeat(32)) < FEW);
        assert!(kinds("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA") < FEW);
        assert!(kinds("0f4a9c1be27d83560f4a9c1be27d8356") >= FEW);
    }
}
