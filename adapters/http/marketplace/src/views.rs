//! JSON representations of the marketplace's rows and results, used by the API and the command line.
//!
//! A view lists exactly the fields that a client sees. Its fields are private, because it is only serialized.

mod assets;
mod findings;
mod gateway_reports;
mod invoices;
mod orders;
mod reconciliation;
mod refunds;
mod timeline;
mod users;

pub use findings::RecordedFindingView;
pub use gateway_reports::GatewayReportView;
pub use invoices::{InvoiceDetailsView, InvoiceView};
pub use orders::{FoundOrderView, FoundPaymentView, OrderDetailsView, PaymentDetailsView};
pub use reconciliation::ReconciliationView;
pub use refunds::RefundDetailsView;
pub use timeline::{InvoiceTimelineView, TimelineView};
pub use users::ErasedUserView;

pub(crate) use assets::AssetAmount;
