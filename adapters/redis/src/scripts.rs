//! The Lua scripts, and the checks that a connection executes them in time.

pub(crate) mod buckets;
pub(crate) mod keys;
