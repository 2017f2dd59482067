//! Faults of the ports of the toolkit.

mod archive;
mod consuming;
mod erasure;
mod jobs;
mod leases;
mod monitoring;
mod operations;
mod rows;
mod webhooks;
