//! Coupons, wallets and points within a unit of work: shared by the consumers, the jobs and the use cases that move them.

mod books;

pub(crate) use books::{Books, Cause, Done, Subject, Wanted};
