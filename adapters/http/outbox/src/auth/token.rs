//! Issues and verifies tokens. Claims: `sub` (user id), `tenant` (1 if absent), `roles`, `iat`, `exp`, and `iss` and `aud`
//! if [`TokenRules`] require them.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{MAX_ID, TenantId, Trace};
use handover_outbox::operations::Operator;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, decode_header, encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::keys::{Key, KeySet};
use super::provider::PROVIDER;
use super::token_rules::TokenRules;

/// Verified claims of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// `sub`, from 1 to [`MAX_ID`].
    pub user: i64,
    /// `tenant`.
    pub tenant: TenantId,
    /// `roles`; entries that are not strings are ignored.
    pub roles: Vec<String>,
    /// `exp`, in seconds since 1970.
    pub expires: i64,
}

/// Role that reads the rows of its own tenant and runs operator commands on them.
const OPERATOR: &str = "operator";
/// Role that reads the rows of all tenants and runs operator commands on them.
const PLATFORM: &str = "platform";
/// Role that reads unmasked payloads.
const PII: &str = "pii";

impl Claims {
    /// The operator with these roles; `None` without the role `operator` or `platform`.
    pub fn operator(&self, trace: Trace) -> Option<Operator> {
        let has = |role: &str| self.roles.iter().any(|given| given == role);
        (has(OPERATOR) || has(PLATFORM)).then(|| Operator {
            name: format!("user:{}", self.user),
            tenant: self.tenant,
            sees_all_tenants: has(PLATFORM),
            sees_personal_data: has(PII),
            trace,
        })
    }
}

/// Reason why a token is rejected or cannot be issued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a token, or its key or algorithm is unknown.
    #[error("malformed token, or unknown key or algorithm")]
    Unrecognized,
    /// The signature does not match the key.
    #[error("wrong signature")]
    WrongSignature,
    /// The signature is valid, but a claim is missing or malformed.
    #[error("the claim {0} is missing or malformed")]
    InvalidClaim(&'static str),
    /// `iss` is not the required issuer.
    #[error("wrong issuer")]
    WrongIssuer,
    /// `aud` does not name this service.
    #[error("wrong audience")]
    WrongAudience,
    /// `exp` has passed.
    #[error("expired")]
    Expired,
    /// The token could not be signed.
    #[error("the token could not be signed")]
    SigningFailed,
}

/// The secret is shorter than the output of HMAC-SHA256 (RFC 7518 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the secret for tokens must be at least {} bytes long", Tokens::MIN_SECRET_BYTES)]
pub struct WeakSecret;

/// Verifies tokens with this service's secret and the previous one, with keys of external issuers, or with all of them;
/// issues tokens signed with the secret. Clones share secrets and external keys.
#[derive(Clone)]
pub struct Tokens {
    secrets: Arc<RwLock<OwnSecrets>>,
    external_keys: Option<Arc<RwLock<KeySet>>>,
    rules: TokenRules,
}

/// The secrets of this service, as signing and as verifying keys.
#[derive(Default)]
struct OwnSecrets {
    /// The current secret.
    signing: Option<EncodingKey>,
    /// The current secret and the previous one, as far as they are set.
    verifying: Vec<Key>,
}

impl OwnSecrets {
    fn new(current: Option<&[u8]>, previous: Option<&[u8]>) -> Result<OwnSecrets, WeakSecret> {
        if current.into_iter().chain(previous).any(|secret| secret.len() < Tokens::MIN_SECRET_BYTES) {
            return Err(WeakSecret);
        }
        let key = |secret| Key { algorithm: Algorithm::HS256, verifying: DecodingKey::from_secret(secret) };
        let verifying = current.into_iter().chain(previous).map(key).collect();
        Ok(OwnSecrets { signing: current.map(EncodingKey::from_secret), verifying })
    }
}

#[derive(Serialize)]
struct IssuedClaims<'a> {
    sub: String,
    tenant: TenantId,
    roles: &'a [&'a str],
    iat: i64,
    exp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

#[derive(Deserialize)]
struct PresentedClaims {
    sub: Option<Value>,
    tenant: Option<Value>,
    roles: Option<Value>,
    exp: Option<Value>,
    nbf: Option<Value>,
    iss: Option<Value>,
    aud: Option<Value>,
}

impl Tokens {
    /// Minimum length of the secret in bytes.
    pub const MIN_SECRET_BYTES: usize = 32;

    /// Issues and verifies HS256 tokens with this secret.
    pub fn new(secret: &[u8]) -> Result<Tokens, WeakSecret> {
        let tokens = Tokens::without_keys();
        tokens.replace_secrets(Some(secret), None)?;
        Ok(tokens)
    }

    /// Replaces the secrets, in all clones. `previous` verifies tokens, but signs none.
    pub fn replace_secrets(&self, current: Option<&[u8]>, previous: Option<&[u8]>) -> Result<(), WeakSecret> {
        let secrets = OwnSecrets::new(current, previous)?;
        *self.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
        Ok(())
    }

    /// Verifies tokens with these public keys; cannot issue tokens.
    pub fn from_keys(keys: KeySet) -> Tokens {
        Tokens::without_keys().with_keys(keys)
    }

    /// Adds these public keys, which verify tokens in addition to the secret.
    #[must_use]
    pub fn with_keys(self, keys: KeySet) -> Tokens {
        Tokens { external_keys: Some(Arc::new(RwLock::new(keys))), ..self }
    }

    /// Sets the rules for claims.
    #[must_use]
    pub fn with_rules(self, rules: TokenRules) -> Tokens {
        Tokens { rules, ..self }
    }

    fn without_keys() -> Tokens {
        // The error is ignored: it means that an earlier call installed a provider.
        let _ = PROVIDER.install_default();
        Tokens { secrets: Arc::default(), external_keys: None, rules: TokenRules::default() }
    }

    /// Replaces the external keys, in all clones. Does nothing if no external keys are configured.
    pub fn replace_keys(&self, keys: KeySet) {
        if let Some(external_keys) = &self.external_keys {
            *external_keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        }
    }

    /// Issues a token for this user, valid from `now` for `ttl`.
    pub fn issue(
        &self,
        user: i64,
        tenant: TenantId,
        roles: &[&str],
        ttl: Duration,
        now: DateTime<Utc>,
    ) -> Result<String, TokenError> {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let signing = secrets.signing.as_ref().ok_or(TokenError::SigningFailed)?;
        let iat = now.timestamp();
        let claims = IssuedClaims {
            sub: user.to_string(),
            tenant,
            roles,
            iat,
            exp: iat.saturating_add(i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX)),
            iss: self.rules.issuer.as_deref(),
            aud: self.rules.audience.as_deref(),
        };
        encode(&Header::new(Algorithm::HS256), &claims, signing).map_err(|_| TokenError::SigningFailed)
    }

    /// Verifies signature and claims of a token.
    pub fn verify(&self, token: &str, now: DateTime<Utc>) -> Result<Claims, TokenError> {
        let presented = self.verify_signature(token)?;
        if !self.rules.is_issuer(presented.iss.as_ref()) {
            return Err(TokenError::WrongIssuer);
        }
        if !self.rules.is_audience(presented.aud.as_ref()) {
            return Err(TokenError::WrongAudience);
        }
        let expires = presented.exp.as_ref().and_then(|exp| seconds(exp, f64::floor));
        let expires = expires.ok_or(TokenError::InvalidClaim("exp"))?;
        let now = now.timestamp();
        let leeway = self.rules.leeway_s();
        if now.saturating_sub(leeway) >= expires {
            return Err(TokenError::Expired);
        }
        if let Some(begins) = &presented.nbf
            && seconds(begins, f64::ceil).is_none_or(|begins| now.saturating_add(leeway) < begins)
        {
            return Err(TokenError::InvalidClaim("nbf"));
        }
        let user = presented.sub.as_ref().and_then(id).filter(|user| (1..=MAX_ID).contains(user));
        let user = user.ok_or(TokenError::InvalidClaim("sub"))?;
        let tenant = match &presented.tenant {
            Some(tenant) => id(tenant).ok_or(TokenError::InvalidClaim("tenant"))?,
            None => TenantId::DEFAULT,
        };
        let roles = match &presented.roles {
            Some(roles) => {
                roles.as_array().ok_or(TokenError::InvalidClaim("roles"))?.iter().filter_map(role).collect()
            }
            None => Vec::new(),
        };
        Ok(Claims { user, tenant, roles, expires })
    }

    /// The claims of a token with a valid signature. If external keys are configured, a token with a `kid` is verified
    /// with that external key only; the secrets verify tokens without a `kid`.
    fn verify_signature(&self, token: &str) -> Result<PresentedClaims, TokenError> {
        let header = decode_header(token).map_err(|_| TokenError::Unrecognized)?;
        // Critical extensions (RFC 7515 §4.1.11): none is supported.
        if header.crit.is_some() {
            return Err(TokenError::Unrecognized);
        }
        match (&self.external_keys, header.kid) {
            (Some(external_keys), Some(id)) => {
                let keys = external_keys.read().unwrap_or_else(PoisonError::into_inner);
                verified_by(keys.key(&id), token)
            }
            (Some(_), None) | (None, _) => {
                let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
                verified_by(&secrets.verifying, token)
            }
        }
    }
}

/// The claims of a token that one of these keys signed.
fn verified_by<'a>(
    keys: impl IntoIterator<Item = &'a Key>,
    token: &str,
) -> Result<PresentedClaims, TokenError> {
    let mut refusal = TokenError::Unrecognized;
    for key in keys {
        match decode(token, &key.verifying, &validation(key.algorithm)) {
            Ok(decoded) => return Ok(decoded.claims),
            Err(error) => {
                let is_forged = matches!(error.kind(), ErrorKind::InvalidSignature);
                refusal = if is_forged { TokenError::WrongSignature } else { TokenError::Unrecognized };
            }
        }
    }
    Err(refusal)
}

/// Validation of the signature only. [`Tokens::verify`] checks the claims itself: `jsonwebtoken` would use the system
/// clock, and cannot read numbers under serde_json's `arbitrary_precision`.
fn validation(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims = HashSet::new();
    validation
}

/// Reads a `NumericDate` (RFC 7519 §2): seconds since 1970, fractions allowed. The caller's rounding MUST NOT extend the
/// validity of the token.
fn seconds(claim: &Value, rounded: fn(f64) -> f64) -> Option<i64> {
    /// f64 represents every integer up to 2^53.
    const MAX: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, reason = "rounded, and at most 2^53")]
    let whole = |seconds: f64| rounded(seconds) as i64;
    claim.as_i64().or_else(|| claim.as_f64().filter(|seconds| seconds.abs() <= MAX).map(whole))
}

/// Reads an id, given as a number or a string. A string MUST be in canonical form (`7`, not `07`): a system that
/// compares `sub` as text would otherwise see two users.
fn id<I: TryFrom<i64>>(claim: &Value) -> Option<I> {
    let canonical = |text: &str| text.parse().ok().filter(|number: &i64| number.to_string() == text);
    let number = claim.as_str().map_or_else(|| claim.as_i64(), canonical)?;
    I::try_from(number).ok()
}

fn role(claim: &Value) -> Option<String> {
    claim.as_str().map(str::to_owned)
}
