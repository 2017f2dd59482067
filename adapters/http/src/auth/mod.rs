//! Bearer tokens: JSON Web Tokens. HS256 under our own secret, RS256 and EdDSA under the public keys of whoever else
//! issues them.
//!
//! **Invariant:** a key is for one algorithm, and says so itself; what a token's header says of it is only compared.

mod keys;
mod provider;
mod rules;
mod token;

pub use keys::{BadKeys, KeySet};
pub use rules::TokenRules;
pub use token::{Claims, TokenError, Tokens, WeakSecret};
