//! Use cases of the marketplace. A command has these steps: begin, read, decide, write, append its events, commit. To
//! add a use case, create a file here, add its `mod` line below, and add a route in the HTTP adapter.

mod cancel_order;
pub mod close_overdue_order;
mod complete_order;
mod finish_payment;
mod list_product;
pub mod operations;
mod place_order;
mod queries;
mod request_refund;
mod settle_payment;
mod settle_refund;
mod shelve_product;
mod ship_order;
mod start_payment;
pub(crate) mod transition;

pub use cancel_order::cancel_order;
pub use close_overdue_order::Closed;
pub use complete_order::complete_order;
pub(crate) use finish_payment::{FinishPayment, Finished, finish_payment};
pub use list_product::{ListProduct, list_product};
pub use place_order::{PlaceOrder, place_order};
pub use queries::{
    AccountBalance, coupons, credit, find_order, find_product, listings, notifications, orders, products,
    purse, refunds, shipments,
};
pub use request_refund::{RequestRefund, request_refund};
pub use settle_payment::{SettlePayment, settle_payment};
pub use settle_refund::{SettleRefund, settle_refund};
pub use shelve_product::{Shelf, shelve_product};
pub use ship_order::ship_order;
pub use start_payment::{StartPayment, start_payment};

pub use crate::error::{NotAllowed, PaymentCommandRefusal, RefundCommandRefusal, UseCaseError};
use handover_outbox::ports::{Changed, StoreError};

/// Requires that a conditional write changed one row. Otherwise another transaction changed the row first, and the
/// attempt is repeated with the current rows.
pub(crate) fn one_row(changed: Changed, what: &str) -> Result<(), StoreError> {
    changed.or_conflict(what)
}
