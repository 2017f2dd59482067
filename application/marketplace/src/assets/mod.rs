//! Coupons, wallets and points within one unit of work. Used by consumers, jobs and use cases.

mod accounts;

pub(crate) use accounts::{AssetAccounts, AssetOutcome, Cause, RowSelection, Subject};
