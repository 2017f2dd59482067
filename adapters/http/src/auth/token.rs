//! Issues and verifies tokens: `sub` (user id), `tenant` (1 if absent), `roles`, `iat`, `exp`.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_application::Role;
use handover_domain::{TenantId, UserId};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::provider::HS256_ONLY;

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
    /// Not a token, not HS256, or signed with another secret.
    #[error("the token is not one of ours")]
    NotOurs,
    /// Signed by us, but a claim is missing or of another form.
    #[error("the claim {0} is missing or malformed")]
    BadClaim(&'static str),
    /// Over.
    #[error("the token has expired")]
    Expired,
    /// It could not be signed.
    #[error("the token could not be signed")]
    NotSigned,
}

/// The secret is shorter than the hash that it keys (RFC 7518 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the secret for tokens must be at least {} bytes long", Tokens::LEAST_SECRET_BYTES)]
pub struct WeakSecret;

/// Issues and verifies tokens with one secret.
pub struct Tokens {
    signing: EncodingKey,
    verifying: DecodingKey,
    validation: Validation,
}

#[derive(Serialize)]
struct Issued<'a> {
    sub: String,
    tenant: TenantId,
    roles: Vec<&'a str>,
    iat: i64,
    exp: i64,
}

#[derive(Deserialize)]
struct Presented {
    sub: Option<Value>,
    tenant: Option<Value>,
    roles: Option<Value>,
    exp: Option<Value>,
    nbf: Option<Value>,
}

impl Tokens {
    /// The shortest secret.
    pub const LEAST_SECRET_BYTES: usize = 32;

    /// Tokens of this secret.
    pub fn new(secret: &[u8]) -> Result<Tokens, WeakSecret> {
        if secret.len() < Tokens::LEAST_SECRET_BYTES {
            return Err(WeakSecret);
        }
        // An error means that it is installed already.
        let _ = HS256_ONLY.install_default();
        let mut validation = Validation::new(Algorithm::HS256);
        // The crate asks the system clock and cannot read numbers that keep their text; `verify` does both.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims = HashSet::new();
        Ok(Tokens {
            signing: EncodingKey::from_secret(secret),
            verifying: DecodingKey::from_secret(secret),
            validation,
        })
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
        let iat = now.timestamp();
        let claims = Issued {
            sub: user.to_string(),
            tenant,
            roles: roles.iter().map(|role| role.as_str()).collect(),
            iat,
            exp: iat.saturating_add(i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX)),
        };
        encode(&Header::new(Algorithm::HS256), &claims, &self.signing).map_err(|_| TokenError::NotSigned)
    }

    /// What the token says, if it is ours and valid now. There is no leeway.
    pub fn verify(&self, token: &str, now: DateTime<Utc>) -> Result<Claims, TokenError> {
        let presented: Presented =
            decode(token, &self.verifying, &self.validation).map_err(|_| TokenError::NotOurs)?.claims;
        let expires = presented.exp.as_ref().and_then(Value::as_i64).ok_or(TokenError::BadClaim("exp"))?;
        if now.timestamp() >= expires {
            return Err(TokenError::Expired);
        }
        if let Some(begins) = &presented.nbf
            && begins.as_i64().is_none_or(|begins| now.timestamp() < begins)
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
}

/// An id, as a number or as text.
fn id<I: TryFrom<i64>>(claim: &Value) -> Option<I> {
    let number = claim.as_str().map_or_else(|| claim.as_i64(), |text| text.parse().ok())?;
    I::try_from(number).ok()
}

fn role(claim: &Value) -> Option<Role> {
    claim.as_str().and_then(Role::named)
}
