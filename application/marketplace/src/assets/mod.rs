//! Coupons, wallets and points within one unit of work. Used by consumers, jobs and use cases.

mod books;

pub(crate) use books::{AssetAccounts, AssetOutcome, Cause, RowSelection, Subject};
