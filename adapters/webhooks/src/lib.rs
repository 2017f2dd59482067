//! Sends webhooks according to the [Standard Webhooks](https://www.standardwebhooks.com) specification.
//!
//! [`HttpTransport`] implements the port `WebhookTransport`: it signs requests with the secrets of the endpoint and sends
//! them to public hosts and named networks only. [`verify()`] verifies the signature of a received request.
//!
//! **Invariant:** secrets are stored only encrypted ([`SecretKeys`]), and no `Debug` output and no error contains one.

#![warn(missing_docs)]

mod headers;
mod keys;
mod secrets;
mod signature;
mod transport;

pub use keys::{InvalidKey, KeyPair, PublicKey, Secret, SigningKey, VerifyingKey};
pub use secrets::{InvalidSecretKey, SecretKey, SecretKeys};
pub use signature::{Message, TOLERANCE, VerifyError, verify};
pub use transport::HttpTransport;
