//! What a token has to say, beside being signed.

use std::time::Duration;

use serde_json::Value;

/// For whom and by whom tokens are (RFC 7519 §4.1), and how far clocks may be apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRules {
    /// Who a token has to be for (`aud`), where that matters.
    pub audience: Option<String>,
    /// Who has to have issued it (`iss`), where that matters.
    pub issuer: Option<String>,
    /// How long a token is still good after it expired (`exp`), and good already before it begins (`nbf`).
    pub leeway: Duration,
}

impl TokenRules {
    /// A greater difference between clocks is to be mended, not allowed for.
    pub const MAX_LEEWAY: Duration = Duration::from_secs(300);

    pub(super) fn leeway_s(&self) -> i64 {
        i64::try_from(self.leeway.as_secs()).unwrap_or(i64::MAX)
    }

    /// Whether a token is from whom it has to be.
    pub(super) fn is_issuer(&self, claim: Option<&Value>) -> bool {
        let Some(issuer) = &self.issuer else { return true };
        claim.and_then(Value::as_str).is_some_and(|claimed| claimed == issuer)
    }

    /// Whether a token is for us: one name or a list of them.
    pub(super) fn is_audience(&self, claim: Option<&Value>) -> bool {
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
