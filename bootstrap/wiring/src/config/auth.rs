//! Accepted tokens: `[auth]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use marketplace_http::{KeySet, TokenRules};

use super::Secret;
use super::error::ConfigError;
use super::read::Reader;

/// Minimum size of an HS256 secret: the size of the hash output (RFC 7518 §3.2).
const MIN_JWT_SECRET_BYTES: usize = 32;

/// Keys of another token issuer, and the claims that every token must have.
#[derive(Debug, Clone)]
pub struct AuthConfig {
    /// `auth.jwks-file`, if set. The file exists and contains keys.
    pub keys: Option<PathBuf>,
    /// `auth.audience`, `auth.issuer`, `auth.leeway`.
    pub rules: TokenRules,
}

/// Reads `auth.*` except `auth.jwt-secret`.
pub(super) fn auth(reader: &Reader<'_>) -> Result<AuthConfig, ConfigError> {
    let why = "larger clock differences must be corrected on the machines (NTP)";
    let leeway = reader.duration("auth.leeway", Duration::ZERO..=TokenRules::MAX_LEEWAY, why)?;
    let rules = TokenRules {
        audience: named(reader, "auth.audience")?,
        issuer: named(reader, "auth.issuer")?,
        leeway,
    };
    let keys = keys(reader, &rules)?;
    Ok(AuthConfig { keys, rules })
}

/// Reads `auth.jwt-secret`.
pub(super) fn secret(reader: &Reader<'_>) -> Result<Option<Secret>, ConfigError> {
    let Some(item) = reader.find("auth.jwt-secret") else { return Ok(None) };
    let secret = item.text()?;
    if secret.len() < MIN_JWT_SECRET_BYTES {
        let remedy =
            "set at least 32 random characters (openssl rand -hex 32), or leave it out to have one generated";
        return Err(item.refused_as("too short", "anybody who guesses it can sign in as any user", remedy));
    }
    Ok(Some(Secret::new(secret)))
}

fn named(reader: &Reader<'_>, key: &'static str) -> Result<Option<String>, ConfigError> {
    let Some(item) = reader.find(key) else { return Ok(None) };
    let name = item.text()?;
    if name.is_empty() {
        return Err(item.refused("it is empty", "set the value that tokens contain, or leave it out"));
    }
    Ok(Some(name))
}

fn keys(reader: &Reader<'_>, rules: &TokenRules) -> Result<Option<PathBuf>, ConfigError> {
    let Some(item) = reader.find("auth.jwks-file") else { return Ok(None) };
    let path = PathBuf::from(item.text()?);
    let remedy = "name a JSON Web Key Set with the public keys of the token issuer";
    read_keys(&path).map_err(|why| item.refused(&why, remedy))?;
    if rules.audience.is_none() {
        let why = "tokens that the issuer made for other services would be accepted too";
        let remedy = "set auth.audience to the \"aud\" claim of tokens for this service";
        return Err(item.refused(why, remedy).related_to(&["auth.audience"]));
    }
    Ok(Some(path))
}

/// Parses a key file; the error is for the user.
pub(crate) fn read_keys(path: &Path) -> Result<KeySet, String> {
    let text = std::fs::read_to_string(path).map_err(|cause| format!("the file cannot be read: {cause}"))?;
    KeySet::parse(&text).map_err(|error| error.to_string())
}
