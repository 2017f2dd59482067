//! Bearer tokens: JSON Web Tokens (RFC 7519), signed with HS256 and this service's secret, or with RS256 or EdDSA and the
//! key of an external issuer.
//!
//! **Invariant:** the key determines the algorithm; the `alg` of a token's header is only compared with it (RFC 8725 §3.1).

mod bearer;
mod keys;
mod provider;
mod token;
mod token_rules;

pub use bearer::Unauthenticated;
pub use keys::{KeySet, KeySetError};
pub use token::{Claims, TokenError, Tokens, WeakSecret};
pub use token_rules::TokenRules;
