//! Rules that the claims of a token must meet.

use std::time::Duration;

use serde_json::Value;

/// Expected issuer and audience of tokens (RFC 7519 §4.1), and the allowed clock skew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRules {
    /// Required audience (`aud`); `None`: not checked.
    pub audience: Option<String>,
    /// Required issuer (`iss`); `None`: not checked.
    pub issuer: Option<String>,
    /// Allowed clock skew: how long a token is accepted after `exp` and before `nbf`.
    pub leeway: Duration,
}

impl TokenRules {
    /// Maximum leeway. A larger clock skew must be fixed, not tolerated.
    pub const MAX_LEEWAY: Duration = Duration::from_secs(300);

    pub(crate) fn leeway_s(&self) -> i64 {
        i64::try_from(self.leeway.as_secs()).unwrap_or(i64::MAX)
    }

    /// Whether `iss` is the required issuer.
    pub(crate) fn is_issuer(&self, claim: Option<&Value>) -> bool {
        let Some(issuer) = &self.issuer else { return true };
        claim.and_then(Value::as_str).is_some_and(|claimed| claimed == issuer)
    }

    /// Whether `aud`, a string or an array of strings, contains the required audience.
    pub(crate) fn is_audience(&self, claim: Option<&Value>) -> bool {
        let Some(audience) = &self.audience else { return true };
        let is_ours = |claimed: &Value| claimed.as_str().is_some_and(|claimed| claimed == audience);
        claim.is_some_and(|claim| match claim.as_array() {
            Some(names) => names.iter().any(is_ours),
            None => is_ours(claim),
        })
    }
}

impl Default for TokenRules {
    fn default() -> Self {
        TokenRules { audience: None, issuer: None, leeway: Duration::from_secs(30) }
    }
}
