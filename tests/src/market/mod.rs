//! A market under load: clients that sell and buy, the ledger of what was acknowledged to them, and the end check that
//! holds the database to it.

mod balance;
mod ledger;
mod load;

pub use balance::{balance, ledger_sums};
pub use ledger::{Ledger, Step};
pub use load::{Load, OPERATOR};
