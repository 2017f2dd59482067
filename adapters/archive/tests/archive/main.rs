//! The archive in a folder and in a bucket: the rules of the port for both, then what is specific to each.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed precondition ends the test")]

mod bucket;
mod contract;
mod folder;
mod urls;
