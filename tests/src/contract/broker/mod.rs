//! Broker.
pub const RULES: &[u8] = &[];
