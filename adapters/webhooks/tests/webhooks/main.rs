//! Signatures, encrypted secrets, and requests to a receiver on this machine.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(clippy::disallowed_methods, reason = "real sockets; the runtime of a test ends its tasks")]

mod receiver;
mod secrets;
mod signatures;
mod static_headers;
mod transport;
mod verifiers;
