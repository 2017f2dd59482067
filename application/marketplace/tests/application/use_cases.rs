//! Use cases: results, authorization, and exactly one effect under store faults.

mod contention;
mod idempotency;
mod lowered_id_blocks;
mod orders;
mod payments;
mod queries;
mod unknown_commits;
