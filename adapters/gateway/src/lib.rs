//! Client of the payment gateway: over HTTP, or an in-process sandbox.
//!
//! **Invariant:** the result of a call only states whether the gateway accepted the request. The result of the refund arrives
//! separately, in the signed callback of the gateway or in the report of the sandbox.

mod endpoint;
mod http;
mod response;
mod sandbox;
mod signature;

pub use endpoint::{Endpoint, EndpointError};
pub use http::{GatewaySetupError, HttpGateway};
pub use sandbox::{RefundReports, SandboxGateway};
pub use signature::Signer;
