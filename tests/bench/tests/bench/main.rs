//! Tests of the benchmark: computation of figures, configuration, program.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "real processes run in real time")]

mod arithmetic;
mod configuration;
mod program;
