//! The secrets that verify tokens and payment callbacks: configured, or generated at the first start and stored next to
//! the database file, readable by its owner only.
//!
//! **Invariant:** outside loopback, and on a database server, only configured secrets are used.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use handover_runtime::Failure;
use handover_runtime::config::Secret;
use handover_runtime::secrets::{Missing, SecretKind, Source, is_placeholder};
use handover_runtime::settings::PREVIOUS_JWT_SECRET;
use handover_runtime::tokens::{TokenSecrets, signing_secret};
use marketplace_http::CallbackVerifier;

use crate::failure::MarketFailure;
use crate::settings::{Config, GATEWAY_SECRET, PREVIOUS_GATEWAY_SECRET};

/// The secrets in use.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// Sign and verify tokens.
    pub tokens: TokenSecrets,
    /// Signs requests to the gateway and verifies its callbacks: `whsec_...`.
    pub gateway: Secret,
    /// Also verifies callbacks of the gateway.
    pub previous_gateway: Option<Secret>,
}

impl Secrets {
    /// Checks that the configured secrets suffice for a service that listens on these addresses. A service without
    /// listeners needs no secrets.
    pub fn allow(config: &Config, listens: &[SocketAddr]) -> Result<(), Failure> {
        if !listens.is_empty() && config.database.file().is_none() {
            Secrets::of(config)?;
        }
        let Some(&listen) = listens.iter().find(|listen| !listen.ip().is_loopback()) else { return Ok(()) };
        for (SecretKind { key, .. }, secret) in Secrets::required(config) {
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
        let jwt = config.auth.previous_secret.as_ref().map(|secret| (PREVIOUS_JWT_SECRET, secret));
        let gateway = config.previous_gateway_secret.as_ref().map(|secret| (PREVIOUS_GATEWAY_SECRET, secret));
        jwt.into_iter().chain(gateway)
    }

    /// The secrets that this configuration needs, with the configured values.
    fn required(config: &Config) -> impl Iterator<Item = (&'static SecretKind, Option<&Secret>)> {
        let jwt = config.auth.signs_tokens().then_some((&JWT, config.auth.secret.as_ref()));
        jwt.into_iter().chain([(&GATEWAY, config.gateway_secret.as_ref())])
    }

    /// The configured secrets; missing ones are read from the files next to the database, or generated.
    pub fn of(config: &Config) -> Result<Secrets, Failure> {
        Ok(Secrets {
            tokens: Secrets::tokens(config)?,
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

    /// The secrets of tokens.
    pub fn tokens(config: &Config) -> Result<TokenSecrets, Failure> {
        TokenSecrets::of(&JWT, &config.auth, &config.database)
    }

    /// The secret that signs requests to the gateway and verifies its callbacks.
    pub fn gateway(config: &Config) -> Result<Secret, Failure> {
        GATEWAY.resolve(config.gateway_secret.as_ref(), &config.database, Missing::Generate)
    }

    /// Like [`Secrets::gateway`] for a running service.
    pub(crate) fn reread_gateway(config: &Config) -> Result<Secret, Failure> {
        GATEWAY.resolve(config.gateway_secret.as_ref(), &config.database, Missing::Refuse)
    }

    /// The source of each required secret by key. Generates nothing.
    pub fn look(config: &Config) -> Vec<(&'static str, Result<Source, Failure>)> {
        let source = |(kind, set): (&SecretKind, _)| (kind.key, kind.source(set, &config.database));
        let previous = Secrets::previous(config).map(|(key, secret)| (key, Ok(Source::Set(secret.clone()))));
        Secrets::required(config).map(source).chain(previous).collect()
    }
}

/// The error of a configured secret that is invalid.
pub fn refused(key: &'static str, why: &impl ToString) -> Failure {
    Failure::SecretRefused { key, reason: why.to_string(), verifies: VERIFIES }
}

/// What the secrets verify.
const VERIFIES: &[&str] = &["tokens", "payment callbacks"];

pub(crate) static JWT: SecretKind = signing_secret(VERIFIES);
// 64 hexadecimal digits are also valid base64, which the Standard Webhooks specification requires after the prefix.
pub(crate) static GATEWAY: SecretKind = SecretKind {
    key: GATEWAY_SECRET,
    purpose: "gateway-secret",
    prefix: "whsec_",
    verifies: VERIFIES,
    is_valid: |secret| CallbackVerifier::new(secret).is_ok(),
};
