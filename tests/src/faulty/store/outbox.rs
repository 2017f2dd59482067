//! Faults of the ports of the toolkit.

mod consuming;
mod leases;
mod operations;
mod rows;
