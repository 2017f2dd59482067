//! Faults of the ports of the marketplace.

mod assets;
mod business;
mod effects;
mod gateway;
mod requests;
