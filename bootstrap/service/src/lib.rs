//! The program `handover`: command line and commands.

pub mod asyncapi;
pub mod cli;
mod commands;
mod process;

pub use process::main;
