//! The tokens of a process (`auth.*`): signed with its own secret, or by another issuer whose public keys it has.

use handover_http::{KeySet, Tokens};

use crate::config::Secret;
use crate::failure::Failure;
use crate::jwks;
use crate::secrets::{Missing, SecretKind};
use crate::settings::{AuthConfig, DatabaseChoice, JWKS_FILE, JWT_SECRET};

/// The kind of the secret that signs tokens. `verifies` is what the secrets of the program verify, for its advice.
pub const fn signing_secret(verifies: &'static [&'static str]) -> SecretKind {
    SecretKind { key: JWT_SECRET, purpose: "jwt-secret", prefix: "", verifies, is_valid }
}

fn is_valid(secret: &str) -> bool {
    Tokens::new(secret.as_bytes()).is_ok()
}

/// The secrets of tokens in use.
#[derive(Debug, Clone)]
pub struct TokenSecrets {
    /// Signs and verifies tokens (HS256). `None` if only tokens of another issuer (`auth.jwks-file`) are accepted.
    pub current: Option<Secret>,
    /// Also verifies tokens.
    pub previous: Option<Secret>,
    /// What the secrets of the program verify, for its advice.
    pub verifies: &'static [&'static str],
}

impl TokenSecrets {
    /// The configured secrets. A missing one that signs tokens is read from its file next to the database, or generated.
    pub fn of(
        kind: &SecretKind,
        auth: &AuthConfig,
        database: &DatabaseChoice,
    ) -> Result<TokenSecrets, Failure> {
        let current = || kind.resolve(auth.secret.as_ref(), database, Missing::Generate);
        Ok(TokenSecrets {
            current: auth.signs_tokens().then(current).transpose()?,
            previous: auth.previous_secret.clone(),
            verifies: kind.verifies,
        })
    }

    /// Verifies every token that the configuration accepts.
    pub fn tokens(&self, auth: &AuthConfig) -> Result<Tokens, Failure> {
        let keys = self.keys(auth)?;
        let tokens = match (&self.current, keys) {
            (Some(secret), Some(keys)) => self.signed_with(secret)?.with_keys(keys),
            (Some(secret), None) => self.signed_with(secret)?,
            (None, keys) => Tokens::from_keys(keys.unwrap_or_default()),
        };
        let tokens = tokens.with_rules(auth.rules.clone());
        self.replace_secrets(&tokens)?;
        Ok(tokens)
    }

    /// Replaces the secrets and the public keys with which `tokens` are verified by these, or changes nothing.
    pub fn replace(&self, auth: &AuthConfig, tokens: &Tokens) -> Result<(), Failure> {
        let keys = self.keys(auth)?;
        self.replace_secrets(tokens)?;
        if let Some(keys) = keys {
            tokens.replace_keys(keys);
        }
        Ok(())
    }

    /// Tokens to issue, without rules. Fails if only tokens of another issuer are accepted.
    pub fn signer(&self) -> Result<Tokens, Failure> {
        self.signed_with(self.current.as_ref().ok_or(Failure::NoSigningSecret {})?)
    }

    fn signed_with(&self, secret: &Secret) -> Result<Tokens, Failure> {
        Tokens::new(secret.reveal().as_bytes()).map_err(|error| self.refused(JWT_SECRET, &error))
    }

    fn replace_secrets(&self, tokens: &Tokens) -> Result<(), Failure> {
        let [current, previous] = [&self.current, &self.previous]
            .map(|secret| secret.as_ref().map(|secret| secret.reveal().as_bytes()));
        tokens.replace_secrets(current, previous).map_err(|error| self.refused(JWT_SECRET, &error))
    }

    fn keys(&self, auth: &AuthConfig) -> Result<Option<KeySet>, Failure> {
        jwks::load(auth).map_err(|why| self.refused(JWKS_FILE, &why))
    }

    fn refused(&self, key: &'static str, why: &impl ToString) -> Failure {
        Failure::SecretRefused { key, reason: why.to_string(), verifies: self.verifies }
    }
}
