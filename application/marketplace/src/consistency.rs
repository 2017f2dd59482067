//! The events and effects that an order or invoice must have, and which of them are missing. Used by the repair job
//! and by reconciliation.
//!
//! **Invariant:** events in flight are not reported as missing, because business rows are read before outbox rows. The
//! repair of events may run repeatedly and concurrently: it checks the current rows in the transaction that appends the
//! events.

mod effects;
mod expected;
pub(crate) mod holds;
mod invoices;
mod missing;
mod money;
mod products;
mod readable_orders;
pub(crate) mod rows_by_order;

pub(crate) use effects::{OrderEffects, effects_of_orders, refunds_in_ledger, row_of_operation};
pub(crate) use expected::{AboutEvents, ExpectedEvent};
pub(crate) use holds::reconstructed_hold;
pub(crate) use invoices::{InvoiceMismatch, mismatches_of_invoice};
pub(crate) use missing::{OrderRows, announce_missing, missing_of_invoice, read_rows};
pub(crate) use money::{MoneyMismatch, OrderMoney, confirmed_mismatches, is_paid_for};
pub(crate) use products::{ProductMismatch, ProductScan, occupy_product};
pub(crate) use readable_orders::ReadableOrders;
