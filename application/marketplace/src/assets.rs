//! Coupons, wallets and points within one unit of work. Used by consumers, jobs and use cases.

mod accounts;
mod operations;

pub(crate) use accounts::{AssetAccounts, RowSelection, Subject};
pub(crate) use operations::{AssetOutcome, Cause};
