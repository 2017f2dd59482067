//! Use cases: results, authorization, and exactly one effect under every store fault.

mod contention;
mod ids_set_back;
mod orders;
mod payments;
mod queries;
mod repeats;
mod unknown_commits;
