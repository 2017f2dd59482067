//! Accepted tokens: `[auth]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{Checked, ConfigError, Item, Kind, Reader, Secret};
use handover_http::{KeySet, TokenRules, Tokens};

/// The key of the secret that signs tokens.
pub const JWT_SECRET: &str = "auth.jwt-secret";
/// The key of the previous secret, with which tokens are still verified.
pub const PREVIOUS_JWT_SECRET: &str = "auth.previous-jwt-secret";

/// The key of the file with public keys of another token issuer.
pub const JWKS_FILE: &str = "auth.jwks-file";
const AUDIENCE: &str = "auth.audience";

/// The secrets of tokens, keys of another token issuer, and the claims that every token must have.
#[derive(Debug, Clone)]
pub struct AuthConfig {
    /// `auth.jwt-secret`, if set.
    pub secret: Option<Secret>,
    /// `auth.previous-jwt-secret`, if set.
    pub previous_secret: Option<Secret>,
    /// `auth.jwks-file`, if set. The file exists and contains keys.
    pub keys: Option<PathBuf>,
    /// `auth.audience`, `auth.issuer`, `auth.leeway`.
    pub rules: TokenRules,
}

impl AuthConfig {
    /// Whether the program signs tokens itself: without a secret only the tokens of another issuer are accepted.
    pub fn signs_tokens(&self) -> bool {
        self.secret.is_some() || self.keys.is_none()
    }

    /// This configuration with the secrets of `read`, which can change while a process runs.
    pub fn with_secrets_of(self, read: AuthConfig) -> AuthConfig {
        AuthConfig { secret: read.secret, previous_secret: read.previous_secret, ..self }
    }

    /// The keys of the secrets that differ.
    pub fn changed_secrets(&self, after: &AuthConfig) -> impl Iterator<Item = &'static str> + use<> {
        let current = (self.secret != after.secret).then_some(JWT_SECRET);
        let previous = (self.previous_secret != after.previous_secret).then_some(PREVIOUS_JWT_SECRET);
        current.into_iter().chain(previous)
    }
}

fn jwt_secret(reader: &Reader<'_>) -> Checked<Option<Secret>> {
    let otherwise = "remove the key to have a secret generated";
    reader.optional(Kind::Secret { is_generated: true }, JWT_SECRET, |item| strong(item, otherwise))
}

fn previous_jwt_secret(reader: &Reader<'_>) -> Checked<Option<Secret>> {
    let otherwise = "remove the key if no token with another secret is in use";
    reader.optional(Kind::Secret { is_generated: false }, PREVIOUS_JWT_SECRET, |item| strong(item, otherwise))
}

fn strong(item: &Item, otherwise: &str) -> Result<Secret, ConfigError> {
    let secret = item.as_text()?;
    // HS256 requires a secret that is at least as long as the hash output (RFC 7518 §3.2).
    if Tokens::new(secret.as_bytes()).is_err() {
        let remedy = format!(
            "set at least {} random characters (openssl rand -hex 32), or {otherwise}",
            Tokens::MIN_SECRET_BYTES
        );
        return Err(item.refused_as(
            "too short",
            "anybody who guesses the secret can sign in as any user",
            &remedy,
        ));
    }
    Ok(Secret::new(secret))
}

/// Reads `auth.*`.
pub fn auth(reader: &Reader<'_>) -> Checked<AuthConfig> {
    let secret = jwt_secret(reader);
    let previous_secret = previous_jwt_secret(reader);
    let keys = reader.optional(Kind::Text, JWKS_FILE, keys);
    let audience = reader.optional(Kind::Text, AUDIENCE, claim);
    let issuer = reader.optional(Kind::Text, "auth.issuer", claim);
    let why = "larger clock differences must be corrected on the machines (NTP)";
    let leeway = reader.duration("auth.leeway", "30s", Duration::ZERO..=TokenRules::MAX_LEEWAY, why);
    if let (Ok(Some(_)), Ok(None)) = (&keys, &audience) {
        let why = "the service would accept tokens that the issuer made for other services";
        let remedy = "set auth.audience to the \"aud\" claim of tokens for this service";
        reader.report(reader.item(JWKS_FILE).refused(why, remedy).related_to(&[AUDIENCE]));
    }
    let rules = TokenRules { audience: audience?, issuer: issuer?, leeway: leeway? };
    Ok(AuthConfig { secret: secret?, previous_secret: previous_secret?, keys: keys?, rules })
}

fn claim(item: &Item) -> Result<String, ConfigError> {
    let name = item.as_text()?;
    if name.is_empty() {
        return Err(
            item.refused("it is empty", "set the value that tokens contain in this claim, or remove the key")
        );
    }
    Ok(name)
}

fn keys(item: &Item) -> Result<PathBuf, ConfigError> {
    let path = PathBuf::from(item.as_text()?);
    let remedy = "name a JSON Web Key Set with the public keys of the token issuer";
    read_keys(&path).map_err(|why| item.refused(&why, remedy))?;
    Ok(path)
}

/// Parses a key file; the error is for the user.
pub(crate) fn read_keys(path: &Path) -> Result<KeySet, String> {
    let text = std::fs::read_to_string(path).map_err(|cause| format!("the file cannot be read: {cause}"))?;
    KeySet::parse(&text).map_err(|error| error.to_string())
}
