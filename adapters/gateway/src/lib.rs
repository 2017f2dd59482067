//! The payment gateway, as far as it is asked for something: over HTTP, or a sandbox in the process itself.
//!
//! **Invariant:** an answer here never says that money went back. It says that the request was taken, or not; what became
//! of it is for the signed report to tell, or for the sandbox's.

mod answer;
mod endpoint;
mod http;
mod sandbox;
mod signature;

pub use endpoint::{BadEndpoint, Endpoint};
pub use http::{HttpGateway, Unusable};
pub use sandbox::{Reports, SandboxGateway};
