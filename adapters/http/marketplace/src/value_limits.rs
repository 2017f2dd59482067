//! Limits of the marketplace's values in requests: the readers, their messages and the OpenAPI document use them. The types
//! of the domain define the limits of their values as constants.

/// Maximum length of the gateway's transaction id.
pub(crate) const MAX_TRANSACTION_CHARS: usize = 64;
/// Maximum number of points per grant.
pub(crate) const MAX_GRANT: i64 = 1_000_000_000;
