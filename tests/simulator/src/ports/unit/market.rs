//! Writes of the ports of the marketplace.

mod assets;
mod effects;
mod orders;
