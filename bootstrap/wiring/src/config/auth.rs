//! Accepted tokens: `[auth]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use handover_http::{KeySet, TokenRules, Tokens};

use super::error::ConfigError;
use super::read::{Item, Reader};
use super::{JWT_SECRET, PREVIOUS_JWT_SECRET, Secret};

/// Keys of another token issuer, and the claims that every token must have.
#[derive(Debug, Clone)]
pub struct AuthConfig {
    /// `auth.jwks-file`, if set. The file exists and contains keys.
    pub keys: Option<PathBuf>,
    /// `auth.audience`, `auth.issuer`, `auth.leeway`.
    pub rules: TokenRules,
}

/// Reads `auth.jwt-secret`.
pub(super) fn secret(reader: &Reader<'_>) -> Result<Option<Secret>, ConfigError> {
    let otherwise = "remove the key to have a secret generated";
    reader.secret(JWT_SECRET).map(|item| strong(&item, otherwise)).transpose()
}

/// Reads `auth.previous-jwt-secret`.
pub(super) fn previous_secret(reader: &Reader<'_>) -> Result<Option<Secret>, ConfigError> {
    let otherwise = "remove the key if no token with another secret is in use";
    reader.secret(PREVIOUS_JWT_SECRET).map(|item| strong(&item, otherwise)).transpose()
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

/// Reads the other keys of `auth.*`.
pub(super) fn auth(reader: &Reader<'_>) -> Result<AuthConfig, ConfigError> {
    let file = reader.optional("auth.jwks-file");
    let audience = claim(reader.optional("auth.audience"))?;
    let issuer = claim(reader.optional("auth.issuer"))?;
    let why = "larger clock differences must be corrected on the machines (NTP)";
    let leeway = reader.value("auth.leeway", "30s").duration(Duration::ZERO..=TokenRules::MAX_LEEWAY, why)?;
    let rules = TokenRules { audience, issuer, leeway };
    let keys = file.map(|file| keys(&file, &rules)).transpose()?;
    Ok(AuthConfig { keys, rules })
}

fn claim(item: Option<Item>) -> Result<Option<String>, ConfigError> {
    let Some(item) = item else { return Ok(None) };
    let name = item.as_text()?;
    if name.is_empty() {
        return Err(
            item.refused("it is empty", "set the value that tokens contain in this claim, or remove the key")
        );
    }
    Ok(Some(name))
}

fn keys(item: &Item, rules: &TokenRules) -> Result<PathBuf, ConfigError> {
    let path = PathBuf::from(item.as_text()?);
    let remedy = "name a JSON Web Key Set with the public keys of the token issuer";
    read_keys(&path).map_err(|why| item.refused(&why, remedy))?;
    if rules.audience.is_none() {
        let why = "the service would accept tokens that the issuer made for other services";
        let remedy = "set auth.audience to the \"aud\" claim of tokens for this service";
        return Err(item.refused(why, remedy).related_to(&["auth.audience"]));
    }
    Ok(path)
}

/// Parses a key file; the error is for the user.
pub(crate) fn read_keys(path: &Path) -> Result<KeySet, String> {
    let text = std::fs::read_to_string(path).map_err(|cause| format!("the file cannot be read: {cause}"))?;
    KeySet::parse(&text).map_err(|error| error.to_string())
}
