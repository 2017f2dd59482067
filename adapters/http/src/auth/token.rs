//! Issues and verifies tokens: `sub` (user id), `tenant` (1 if absent), `roles`, `iat`, `exp`, and `iss` and `aud` where
//! the rules name them.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, decode_header, encode};
use marketplace::Role;
use marketplace_domain::UserId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::keys::{Key, KeySet};
use super::provider::OURS;
use super::rules::TokenRules;

/// What a token says about its bearer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Who.
    pub user: UserId,
    /// In which tenant.
    pub tenant: TenantId,
    /// With which roles; those we do not know are left out.
    pub roles: Vec<Role>,
    /// Until when, in seconds since 1970.
    pub expires: i64,
}

/// Why a token is refused, or cannot be issued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a token, or for a key or an algorithm that is none of ours.
    #[error("it is no token under a key of this service")]
    NotOurs,
    /// The signature is not that of the key.
    #[error("wrong signature")]
    WrongSignature,
    /// Signed by us, but a claim is missing or of another form.
    #[error("the claim {0} is missing or malformed")]
    BadClaim(&'static str),
    /// `iss` is not the issuer that tokens have to be from.
    #[error("wrong issuer")]
    WrongIssuer,
    /// `aud` does not name this service.
    #[error("wrong audience")]
    WrongAudience,
    /// `exp` is over.
    #[error("expired")]
    Expired,
    /// It could not be signed.
    #[error("the token could not be signed")]
    NotSigned,
}

/// The secret is shorter than the hash that it keys (RFC 7518 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the secret for tokens must be at least {} bytes long", Tokens::LEAST_SECRET_BYTES)]
pub struct WeakSecret;

/// Verifies tokens under our own secret, under the keys of others, or both; issues those under the secret. Clones share
/// the keys.
#[derive(Clone)]
pub struct Tokens {
    own: Option<Own>,
    others: Option<Arc<RwLock<KeySet>>>,
    rules: TokenRules,
}

/// Our secret, for either direction.
#[derive(Clone)]
struct Own {
    signing: EncodingKey,
    verifying: Key,
}

#[derive(Serialize)]
struct Issued<'a> {
    sub: String,
    tenant: TenantId,
    roles: Vec<&'a str>,
    iat: i64,
    exp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

#[derive(Deserialize)]
struct Presented {
    sub: Option<Value>,
    tenant: Option<Value>,
    roles: Option<Value>,
    exp: Option<Value>,
    nbf: Option<Value>,
    iss: Option<Value>,
    aud: Option<Value>,
}

impl Tokens {
    /// The shortest secret.
    pub const LEAST_SECRET_BYTES: usize = 32;

    /// Tokens of this secret.
    pub fn new(secret: &[u8]) -> Result<Tokens, WeakSecret> {
        if secret.len() < Tokens::LEAST_SECRET_BYTES {
            return Err(WeakSecret);
        }
        let verifying = Key { algorithm: Algorithm::HS256, verifying: DecodingKey::from_secret(secret) };
        let own = Own { signing: EncodingKey::from_secret(secret), verifying };
        Ok(Tokens { own: Some(own), ..Tokens::of_nobody() })
    }

    /// Tokens of these keys.
    pub fn of_keys(keys: KeySet) -> Tokens {
        Tokens::of_nobody().and_keys(keys)
    }

    /// The same, and tokens of these keys.
    #[must_use]
    pub fn and_keys(self, keys: KeySet) -> Tokens {
        Tokens { others: Some(Arc::new(RwLock::new(keys))), ..self }
    }

    /// The same, under these rules.
    #[must_use]
    pub fn under(self, rules: TokenRules) -> Tokens {
        Tokens { rules, ..self }
    }

    fn of_nobody() -> Tokens {
        // An error means that it is installed already.
        let _ = OURS.install_default();
        Tokens { own: None, others: None, rules: TokenRules::default() }
    }

    /// From now on these keys are the others', for every clone.
    pub fn trust(&self, keys: KeySet) {
        if let Some(others) = &self.others {
            *others.write().unwrap_or_else(PoisonError::into_inner) = keys;
        }
    }

    /// A token for this user, valid from `now` for `ttl`.
    pub fn issue(
        &self,
        user: UserId,
        tenant: TenantId,
        roles: &[Role],
        ttl: Duration,
        now: DateTime<Utc>,
    ) -> Result<String, TokenError> {
        let own = self.own.as_ref().ok_or(TokenError::NotSigned)?;
        let iat = now.timestamp();
        let claims = Issued {
            sub: user.to_string(),
            tenant,
            roles: roles.iter().map(|role| role.as_str()).collect(),
            iat,
            exp: iat.saturating_add(i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX)),
            iss: self.rules.issuer.as_deref(),
            aud: self.rules.audience.as_deref(),
        };
        encode(&Header::new(Algorithm::HS256), &claims, &own.signing).map_err(|_| TokenError::NotSigned)
    }

    /// What the token says, if it is ours and valid now.
    pub fn verify(&self, token: &str, now: DateTime<Utc>) -> Result<Claims, TokenError> {
        let presented = self.signed(token)?;
        if !self.rules.is_issuer(presented.iss.as_ref()) {
            return Err(TokenError::WrongIssuer);
        }
        if !self.rules.is_audience(presented.aud.as_ref()) {
            return Err(TokenError::WrongAudience);
        }
        let expires = presented.exp.as_ref().and_then(|exp| seconds(exp, f64::floor));
        let expires = expires.ok_or(TokenError::BadClaim("exp"))?;
        let (now, leeway) = (now.timestamp(), self.rules.leeway_s());
        if now.saturating_sub(leeway) >= expires {
            return Err(TokenError::Expired);
        }
        if let Some(begins) = &presented.nbf
            && seconds(begins, f64::ceil).is_none_or(|begins| now.saturating_add(leeway) < begins)
        {
            return Err(TokenError::BadClaim("nbf"));
        }
        let user = presented.sub.as_ref().and_then(id).ok_or(TokenError::BadClaim("sub"))?;
        let tenant = match &presented.tenant {
            Some(tenant) => id(tenant).ok_or(TokenError::BadClaim("tenant"))?,
            None => TenantId::DEFAULT,
        };
        let roles = match &presented.roles {
            Some(roles) => {
                roles.as_array().ok_or(TokenError::BadClaim("roles"))?.iter().filter_map(role).collect()
            }
            None => Vec::new(),
        };
        Ok(Claims { user, tenant, roles, expires })
    }

    /// What the token says, if one of our keys signed it: where there are others', the one that it names, and no other;
    /// our own secret verifies what names none.
    fn signed(&self, token: &str) -> Result<Presented, TokenError> {
        let header = decode_header(token).map_err(|_| TokenError::NotOurs)?;
        // Extensions that have to be understood (RFC 7515 §4.1.11); we understand none.
        if header.crit.is_some() {
            return Err(TokenError::NotOurs);
        }
        let own = self.own.as_ref().map(|own| own.verifying.clone());
        let key = match (&self.others, header.kid) {
            (Some(others), Some(id)) => {
                others.read().unwrap_or_else(PoisonError::into_inner).key(&id).cloned()
            }
            (Some(_), None) | (None, _) => own,
        };
        let key = key.ok_or(TokenError::NotOurs)?;
        let decoded = decode(token, &key.verifying, &validation(key.algorithm));
        let decoded = decoded.map_err(|error| {
            let is_forged = matches!(error.kind(), ErrorKind::InvalidSignature);
            if is_forged { TokenError::WrongSignature } else { TokenError::NotOurs }
        })?;
        Ok(decoded.claims)
    }
}

/// The signature alone: the crate asks the system clock and cannot read numbers that keep their text; [`Tokens::verify`]
/// does both.
fn validation(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims = HashSet::new();
    validation
}

/// A `NumericDate` (RFC 7519 §2): seconds, fractions allowed; rounded so that a token is never valid for longer than it says.
fn seconds(claim: &Value, rounded: fn(f64) -> f64) -> Option<i64> {
    /// 2^53: up to it f64 holds every whole number.
    const MAX: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, reason = "whole and within 2^53 by now")]
    let whole = |seconds: f64| rounded(seconds) as i64;
    claim.as_i64().or_else(|| claim.as_f64().filter(|seconds| seconds.abs() <= MAX).map(whole))
}

/// An id, as a number or as text. As text in one form only: what compares `sub` as text must not take one user for two.
fn id<I: TryFrom<i64>>(claim: &Value) -> Option<I> {
    let canonical = |text: &str| text.parse().ok().filter(|number: &i64| number.to_string() == text);
    let number = claim.as_str().map_or_else(|| claim.as_i64(), canonical)?;
    I::try_from(number).ok()
}

fn role(claim: &Value) -> Option<Role> {
    claim.as_str().and_then(Role::named)
}
