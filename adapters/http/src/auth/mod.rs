//! Bearer tokens: JSON Web Tokens, HS256 and nothing else.

mod provider;
mod token;

pub use token::{Claims, TokenError, Tokens, WeakSecret};
