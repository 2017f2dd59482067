//! The benchmark: its arithmetic, its configuration, its program.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "real processes run on real time")]

mod arithmetic;
mod configuration;
mod program;
