//! The routes of webhooks, in an application without the toolkit's tokens and layers.

mod access;
mod deliveries;
mod endpoints;
mod fixture;
mod secrets;
