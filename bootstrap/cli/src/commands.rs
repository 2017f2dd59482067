//! Implementations of the commands.

mod alerts;
mod archive;
mod changes;
#[cfg(feature = "program")]
mod config;
mod inspect;
#[cfg(feature = "program")]
mod listen;
#[cfg(feature = "program")]
mod setup;
pub(crate) mod webhooks;

pub(crate) use alerts::{acknowledge, alerts, stats};
pub(crate) use archive::{archive, restore};
pub(crate) use changes::{discard, redrive, release, replay};
#[cfg(feature = "program")]
pub(crate) use config::show as show_config;
pub(crate) use inspect::{
    audit, blocked, consumptions, dead_letter, dead_letters, event, outbox, queues, topology,
};
#[cfg(feature = "program")]
pub(crate) use listen::listen;
#[cfg(feature = "program")]
pub(crate) use setup::{backup, doctor, migrate};
