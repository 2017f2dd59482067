//! Client of the payment gateway: over HTTP, or an in-process sandbox.
//!
//! **Invariant:** the result of a call only states whether the gateway accepted the request. The result of the refund arrives
//! separately, in the signed callback of the gateway or in the report of the sandbox.

mod answer;
mod endpoint;
mod http;
mod sandbox;
mod signature;

pub use endpoint::{BadEndpoint, Endpoint};
pub use http::{HttpGateway, Unusable};
pub use sandbox::{Reports, SandboxGateway};
