//! `/webhooks`: endpoints and the deliveries of events to them.

pub(super) mod deliveries;
pub(super) mod endpoints;
pub(super) mod secrets;

/// Description of the path parameter `id`.
const ENDPOINT: &str = "The endpoint";
/// Description of the response to an operator who names an endpoint that is not accessible.
const NOT_FOUND: &str = "Endpoint not found in a tenant accessible to the caller";
