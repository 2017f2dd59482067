//! Which URLs and addresses are refused, and what a client does with a connection.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(clippy::disallowed_methods, reason = "the runtime of a test ends its tasks")]

mod addresses;
mod client;
mod receiver;
mod urls;
