//! OpenAPI document: the routes describe themselves (`#[utoipa::path]`); the parameters and responses of the layers are
//! added to every operation in one place.
//!
//! **Invariant:** a route describes only its own parameters and responses; [`add_layers`] adds those of the layers.

mod error_responses;
pub mod kinds;
mod layers;
mod parameters;
pub(crate) mod webhooks;

pub use error_responses::ErrorCase;
pub use layers::{Additions, Api, add_layers, kind, operations};
pub use parameters::{Paging, TENANT, TENANT_NOT_FOUND, header, query_parameter};
pub use webhooks::add_webhooks;
