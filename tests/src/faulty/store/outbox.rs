//! Faults of the ports of the toolkit.

mod consuming;
mod jobs;
mod leases;
mod operations;
mod rows;
mod webhooks;
