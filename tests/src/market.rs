//! A marketplace under load: clients that sell and buy, the record of acknowledged requests, and the final check of the
//! database against this record.

mod balance;
mod ledger;
mod load;

pub use balance::{balance, balance_except, ledger_sums};
pub use ledger::{Ledger, Step};
pub use load::{Load, OPERATOR};
