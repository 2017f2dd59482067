//! Authentication of a request by the bearer token in its `Authorization` header.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use chrono::{DateTime, Utc};

use super::token::{Claims, TokenError, Tokens};
use crate::envelope::Code;
use crate::messages;
use crate::refusal::Refusal;

/// Reason why a request is not authenticated.
#[derive(Debug, Clone)]
pub enum Unauthenticated {
    /// No bearer token.
    Missing,
    /// Several `Authorization` headers: proxies and this service could choose different ones.
    Repeated,
    /// The token is rejected.
    Invalid(TokenError),
}

impl Tokens {
    /// Verifies the bearer token of a request.
    pub fn authenticate(&self, headers: &HeaderMap, now: DateTime<Utc>) -> Result<Claims, Unauthenticated> {
        bearer(headers).and_then(|token| self.verify(token, now).map_err(Unauthenticated::Invalid))
    }
}

impl From<&Unauthenticated> for Refusal {
    fn from(reason: &Unauthenticated) -> Refusal {
        match reason {
            Unauthenticated::Missing => Refusal::of(Code::NOT_AUTHENTICATED),
            Unauthenticated::Repeated => {
                Refusal::new(Code::NOT_AUTHENTICATED, messages::repeated_header("Authorization"))
            }
            Unauthenticated::Invalid(error) => {
                // Only the log contains the reason: the response is the same for every invalid token.
                tracing::info!(code = "request.token-refused", reason = %error, responseCode = Code::NOT_AUTHENTICATED.as_str(), "authentication: token refused");
                Refusal::bad_token()
            }
        }
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, Unauthenticated> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Unauthenticated::Missing)?;
    if values.next().is_some() {
        return Err(Unauthenticated::Repeated);
    }
    let parts = value.to_str().ok().and_then(|text| text.split_once(' '));
    let token = parts.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    token.map(|(_, token)| token.trim()).ok_or(Unauthenticated::Missing)
}
