//! The secrets that verify tokens and payment callbacks: configured, or generated at the first start and stored next to
//! the database file, readable by its owner only.
//!
//! **Invariant:** outside loopback, and on a database server, only configured secrets are used.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use handover_http::Tokens;
use handover_runtime::Failure;
use handover_runtime::config::Secret;
use handover_runtime::settings::DatabaseChoice;
use handover_runtime::sibling_file::sibling_file;
use handover_system::secret_bytes;
use marketplace_http::CallbackVerifier;

use crate::MarketFailure;
use crate::config::{Config, GATEWAY_SECRET, JWT_SECRET, PREVIOUS_GATEWAY_SECRET, PREVIOUS_JWT_SECRET};

/// Fewest distinct characters of a secret that is not a placeholder: 32 random characters have more, `changeme` repeated
/// four times has fewer.
const MIN_DISTINCT_CHARS: usize = 9;

/// The secrets in use.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// Signs and verifies tokens (HS256). `None` if only tokens of another issuer (`auth.jwks-file`) are accepted.
    pub jwt: Option<Secret>,
    /// Also verifies tokens.
    pub previous_jwt: Option<Secret>,
    /// Signs requests to the gateway and verifies its callbacks: `whsec_...`.
    pub gateway: Secret,
    /// Also verifies callbacks of the gateway.
    pub previous_gateway: Option<Secret>,
}

/// What happens if a secret is not set and its file does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Generate,
    Refuse,
}

impl Secrets {
    /// Checks that the configured secrets suffice for a service that listens on these addresses. A service without
    /// listeners needs no secrets.
    pub fn allow(config: &Config, listens: &[SocketAddr]) -> Result<(), Failure> {
        if !listens.is_empty() && config.database.file().is_none() {
            Secrets::of(config)?;
        }
        let Some(&listen) = listens.iter().find(|listen| !listen.ip().is_loopback()) else { return Ok(()) };
        for (Kind { key, .. }, secret) in Secrets::required(config) {
            match secret {
                None => return Err(MarketFailure::SecretNeeded { key, listen }.into()),
                Some(secret) if is_placeholder(secret) => {
                    return Err(MarketFailure::SecretPlaceholder { key, listen }.into());
                }
                Some(_) => {}
            }
        }
        for (key, secret) in Secrets::previous(config) {
            if is_placeholder(secret) {
                return Err(MarketFailure::SecretPlaceholder { key, listen }.into());
            }
        }
        Ok(())
    }

    /// The previous secrets that are set.
    fn previous(config: &Config) -> impl Iterator<Item = (&'static str, &Secret)> {
        let jwt = config.previous_jwt_secret.as_ref().map(|secret| (PREVIOUS_JWT_SECRET, secret));
        let gateway = config.previous_gateway_secret.as_ref().map(|secret| (PREVIOUS_GATEWAY_SECRET, secret));
        jwt.into_iter().chain(gateway)
    }

    /// The secrets that this configuration needs, with the configured values.
    fn required(config: &Config) -> impl Iterator<Item = (&'static Kind, Option<&Secret>)> {
        let jwt = needs_jwt(config).then_some((&JWT, config.jwt_secret.as_ref()));
        jwt.into_iter().chain([(&GATEWAY, config.gateway_secret.as_ref())])
    }

    /// The configured secrets; missing ones are read from the files next to the database, or generated.
    pub fn of(config: &Config) -> Result<Secrets, Failure> {
        Ok(Secrets {
            jwt: Secrets::jwt(config)?,
            previous_jwt: config.previous_jwt_secret.clone(),
            gateway: Secrets::gateway(config)?,
            previous_gateway: config.previous_gateway_secret.clone(),
        })
    }

    /// Like [`Secrets::of`] for a running service: a missing file is an error, because a new secret would invalidate all
    /// tokens.
    pub(crate) fn reread(config: &Config) -> Result<Secrets, Failure> {
        for (kind, set) in Secrets::required(config) {
            kind.resolve(set, &config.database, Missing::Refuse)?;
        }
        Secrets::of(config)
    }

    /// The secret that signs tokens, unless another issuer signs them.
    pub fn jwt(config: &Config) -> Result<Option<Secret>, Failure> {
        let jwt = || JWT.resolve(config.jwt_secret.as_ref(), &config.database, Missing::Generate);
        needs_jwt(config).then(jwt).transpose()
    }

    /// The secret that signs requests to the gateway and verifies its callbacks.
    pub fn gateway(config: &Config) -> Result<Secret, Failure> {
        GATEWAY.resolve(config.gateway_secret.as_ref(), &config.database, Missing::Generate)
    }

    /// The source of each required secret by key. Generates nothing.
    pub fn look(config: &Config) -> Vec<(&'static str, Result<Source, Failure>)> {
        let source = |(kind, set): (&Kind, _)| (kind.key, kind.source(set, &config.database));
        let previous = Secrets::previous(config).map(|(key, secret)| (key, Ok(Source::Set(secret.clone()))));
        Secrets::required(config).map(source).chain(previous).collect()
    }
}

/// Whether the service signs tokens itself: without a secret only the tokens of another issuer are accepted.
fn needs_jwt(config: &Config) -> bool {
    config.jwt_secret.is_some() || config.auth.keys.is_none()
}

/// Whether the secret has so few distinct characters that it cannot be random.
pub fn is_placeholder(secret: &Secret) -> bool {
    let random = secret.reveal().trim_start_matches("whsec_");
    random.chars().collect::<BTreeSet<char>>().len() < MIN_DISTINCT_CHARS
}

/// A secret: its configuration key, its file and its form.
struct Kind {
    key: &'static str,
    /// Suffix of the file next to the database.
    purpose: &'static str,
    /// Prefix of the secret's text.
    prefix: &'static str,
    is_valid: fn(&str) -> bool,
}

static JWT: Kind = Kind {
    key: JWT_SECRET,
    purpose: "jwt-secret",
    prefix: "",
    is_valid: |secret| Tokens::new(secret.as_bytes()).is_ok(),
};
// 64 hexadecimal digits are also valid base64, which the Standard Webhooks specification requires after the prefix.
static GATEWAY: Kind = Kind {
    key: GATEWAY_SECRET,
    purpose: "gateway-secret",
    prefix: "whsec_",
    is_valid: |secret| CallbackVerifier::new(secret).is_ok(),
};

impl Kind {
    /// Returns the configured secret, or the secret in its file.
    fn resolve(
        &self,
        set: Option<&Secret>,
        database: &DatabaseChoice,
        missing: Missing,
    ) -> Result<Secret, Failure> {
        if let Some(secret) = set {
            return Ok(secret.clone());
        }
        let path = self.path(database)?;
        if missing == Missing::Generate && !path.exists() {
            generate(&path, self.prefix)?;
        }
        self.read(&path)
    }

    fn source(&self, set: Option<&Secret>, database: &DatabaseChoice) -> Result<Source, Failure> {
        if let Some(secret) = set {
            return Ok(Source::Set(secret.clone()));
        }
        let path = self.path(database)?;
        if path.exists() { self.read(&path).map(|_| Source::File(path)) } else { Ok(Source::NotGenerated) }
    }

    /// Path of the secret's file. With a database server there is no such file, because the processes that use
    /// the server run on several machines.
    fn path(&self, database: &DatabaseChoice) -> Result<PathBuf, Failure> {
        match database {
            DatabaseChoice::File(path) => Ok(sibling_file(path, self.purpose)),
            DatabaseChoice::Server(_) => {
                Err(MarketFailure::SharedSecretMissing { key: self.key, database: database.clone() }.into())
            }
        }
    }

    fn read(&self, path: &Path) -> Result<Secret, Failure> {
        let failed = |cause| MarketFailure::SecretFile { path: path.to_owned(), cause };
        if exposed(path).map_err(failed)? {
            return Err(MarketFailure::SecretExposed { path: path.to_owned() }.into());
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        let secret = text.trim();
        if !(self.is_valid)(secret) {
            return Err(MarketFailure::SecretFileInvalid { path: path.to_owned() }.into());
        }
        Ok(Secret::new(secret))
    }
}

/// Source of a secret.
#[derive(Debug, Clone)]
pub enum Source {
    /// The configuration.
    Set(Secret),
    /// A file next to the database.
    File(PathBuf),
    /// The secret does not exist yet; the first start generates it.
    NotGenerated,
}

/// Writes a draft and hard-links it to the final name: the file appears complete, and if two processes generate it at
/// the same time, the first link is kept.
fn generate(path: &Path, prefix: &str) -> Result<(), Failure> {
    let draft = sibling_file(path, &format!("{}.new", hex(&secret_bytes::<8>()?)));
    let hex = hex(&secret_bytes::<32>()?);
    let written = write_private(&draft, &format!("{prefix}{hex}\n")).and_then(|()| {
        fs::hard_link(&draft, path)
            .or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
    });
    let _ = fs::remove_file(&draft);
    written.map_err(|cause| MarketFailure::SecretFile { path: path.to_owned(), cause }.into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Whether other users may read or write the file.
#[cfg(unix)]
pub fn exposed(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

/// Whether other users may read or write the file: unknown on this platform, so `false`.
#[cfg(not(unix))]
pub fn exposed(_path: &Path) -> io::Result<bool> {
    Ok(false)
}
