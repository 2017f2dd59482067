//! Requests to URLs that users choose, such as the endpoints of webhooks, without giving them access to the network of the
//! service.
//!
//! [`UrlRules::check`] refuses a URL when it is entered. [`EgressClient`] checks every address again at every connection: it
//! resolves the name itself, refuses the host if one of its addresses is not public, and connects to an address that it has
//! checked.

#![warn(missing_docs)]

mod causes;
mod client;
mod connector;
mod networks;
mod resolver;
mod target;
mod tls;

pub use causes::with_causes;
pub use client::{EgressClient, EgressError, EgressResponse};
pub use networks::{Networks, RefusedAddress};
pub use resolver::{Lookup, Resolved, Resolver, SystemResolver};
pub use target::{MAX_URL_BYTES, RefusedUrl, Target, UrlRules, host_name};
pub use tls::{SetupError, authorities, tls_config};
