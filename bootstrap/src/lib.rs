//! The composition root: configuration, wiring, telemetry, command line.

pub mod config;
