//! Use cases of the marketplace. A command has these steps: begin, read, decide, write, append its events, commit. A
//! use case is a method of the struct that holds what it uses. To add one, create a file here, add its `mod` line below,
//! and add a route in the HTTP adapter.

pub mod close_overdue_order;
pub mod complete_shipped_order;
mod finish_payment;
mod generate_invoice;
mod invoicing;
mod list_product;
pub mod operations;
mod ordering;
mod payments;
mod place_order;
mod queries;
mod refund_invoice;
mod request_refund;
mod settle_payment;
mod settle_refund;
mod shelve_product;
mod start_payment;
pub(crate) mod transition;

pub use close_overdue_order::Closed;
pub use complete_shipped_order::Completed;
pub(crate) use finish_payment::{FinishPayment, Finished};
pub use generate_invoice::GenerateInvoice;
pub use invoicing::{InvoiceDetails, Invoicing, ListInvoices};
pub use list_product::ListProduct;
pub use ordering::{CancelOrder, Ordering};
pub use payments::Payments;
pub use place_order::PlaceOrder;
pub use queries::{AccountBalance, OrderPayment, OrderPayments, Queries};
pub use refund_invoice::RefundInvoice;
pub use request_refund::RequestRefund;
pub use settle_payment::SettlePayment;
pub use settle_refund::SettleRefund;
pub use shelve_product::Shelf;
pub use start_payment::{PayInvoice, StartPayment};

pub use crate::error::{NotAllowed, PaymentCommandRefusal, RefundCommandRefusal, UseCaseError};
