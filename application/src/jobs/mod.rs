//! What runs by the clock. Adding one: a file here, a line in `runtime`.

mod timeout_sweep;

pub use timeout_sweep::TimeoutSweep;
