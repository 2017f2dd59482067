//! Whose tokens are good.

use std::path::{Path, PathBuf};
use std::time::Duration;

use marketplace_http::{KeySet, TokenRules};

use super::Secret;
use super::error::ConfigError;
use super::read::Reader;

/// The fewest bytes of an HS256 secret: as many as the hash has (RFC 7518 §3.2).
const MIN_JWT_SECRET: usize = 32;

/// Whose tokens are good beside those under our own secret, and what all of them have to say.
#[derive(Debug, Clone)]
pub struct AuthConfig {
    /// `auth.jwks-file`, if set: it was there and held keys.
    pub keys: Option<PathBuf>,
    /// `auth.audience`, `auth.issuer`, `auth.leeway`.
    pub rules: TokenRules,
}

/// `auth.*` but the secret.
pub(super) fn auth(reader: &Reader<'_>) -> Result<AuthConfig, ConfigError> {
    let why = "clocks that are further apart have to be set right, not allowed for";
    let leeway = reader.duration("auth.leeway", Duration::ZERO..=TokenRules::MAX_LEEWAY, why)?;
    let rules = TokenRules {
        audience: named(reader, "auth.audience")?,
        issuer: named(reader, "auth.issuer")?,
        leeway,
    };
    let keys = keys(reader, &rules)?;
    Ok(AuthConfig { keys, rules })
}

/// `auth.jwt-secret`.
pub(super) fn secret(reader: &Reader<'_>) -> Result<Option<Secret>, ConfigError> {
    let Some(item) = reader.find("auth.jwt-secret") else { return Ok(None) };
    let secret = item.text()?;
    if secret.len() < MIN_JWT_SECRET {
        let remedy = "set at least 32 random characters (openssl rand -hex 32), or leave it out: one is made";
        return Err(item.refused_as("too short", "who guesses it signs in as anybody", remedy));
    }
    Ok(Some(Secret::new(secret)))
}

fn named(reader: &Reader<'_>, key: &'static str) -> Result<Option<String>, ConfigError> {
    let Some(item) = reader.find(key) else { return Ok(None) };
    let name = item.text()?;
    if name.is_empty() {
        return Err(item.refused("no token says that", "set what the tokens say, or leave it out"));
    }
    Ok(Some(name))
}

fn keys(reader: &Reader<'_>, rules: &TokenRules) -> Result<Option<PathBuf>, ConfigError> {
    let Some(item) = reader.find("auth.jwks-file") else { return Ok(None) };
    let path = PathBuf::from(item.text()?);
    let remedy = "name a JSON Web Key Set with the public keys of who issues the tokens";
    read_keys(&path).map_err(|why| item.refused(&why, remedy))?;
    if rules.audience.is_none() {
        let why = "what their owner issued for other services would be good here too";
        let remedy = "set auth.audience to what tokens for this service say in \"aud\"";
        return Err(item.refused(why, remedy).related_to(&["auth.audience"]));
    }
    Ok(Some(path))
}

/// The keys in a file, or what is wrong with it.
pub(crate) fn read_keys(path: &Path) -> Result<KeySet, String> {
    let text = std::fs::read_to_string(path).map_err(|cause| format!("the file cannot be read: {cause}"))?;
    KeySet::parse(&text).map_err(|error| error.to_string())
}
