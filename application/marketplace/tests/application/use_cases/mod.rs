//! The use cases: what each does, whom it refuses, and that it happens once whatever the store answers.

mod contention;
mod ids_set_back;
mod orders;
mod payments;
mod queries;
mod repeats;
mod unknown_commits;
