//! Writes of the ports of the toolkit.

mod archive;
mod consuming;
mod dead_letters;
mod leader;
mod rows;
mod webhooks;
