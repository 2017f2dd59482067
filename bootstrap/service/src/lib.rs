//! The program `handover`: its command line, and what each command does.

pub mod asyncapi;
pub mod cli;
mod commands;
mod doctor;
mod process;

pub use process::main;
