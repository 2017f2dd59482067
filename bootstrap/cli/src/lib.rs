//! Commands for operators: events in the outbox, dead letters, the audit log, queues, configuration, `doctor`, `migrate` and
//! `backup`.
//!
//! A program with a configuration flattens [`Command`] into its own subcommands, implements [`Program`], and passes the
//! commands to [`run`]. One with webhooks adds [`args::WebhookCommand`] and implements [`WebhookProgram`]. Without the feature `program`, which is enabled by default, only [`OperatorCommand`] remains, for an
//! outbox that a program builds itself ([`Access`]). The commands use the database directly, also while processes serve it.

#![warn(missing_docs)]

mod access;
pub mod args;
#[cfg(feature = "program")]
mod command;
mod commands;
mod failure;
mod operator_command;
pub mod print;
#[cfg(feature = "program")]
mod program;
#[cfg(feature = "program")]
mod session;
pub mod values;
mod webhook_access;
mod webhook_command;
mod words;

pub use access::{Access, NoFlags, Reach, UnrecordedReads, operator, user};
#[cfg(feature = "program")]
pub use command::{Command, run};
pub use failure::CommandFailure;
pub use operator_command::OperatorCommand;
#[cfg(feature = "program")]
pub use program::{CommandConfig, Program, WebhookProgram};
#[cfg(feature = "program")]
pub use session::Session;
pub use webhook_access::WebhookAccess;
pub use words::{argument_with_words, with_words};
