//! Periodic jobs. To add a job, create a file here, decide in its `start` whether every process or the leader runs it,
//! and start it in `service`.

mod auto_completion;
mod continuous_reconciliation;
mod invoices;
mod lock_timeout_reaper;
mod refund_dispatcher;
mod request_sweep;
mod settings;
mod timeout_sweep;

pub use auto_completion::AutoCompletion;
pub use continuous_reconciliation::ContinuousReconciliation;
pub use invoices::Invoices;
pub use lock_timeout_reaper::{LockTimeoutReaper, ReaperReport};
pub use refund_dispatcher::RefundDispatcher;
pub use request_sweep::RequestSweep;
pub use settings::{
    AutoCompletionSettings, ConsistencySettings, InvoiceSettings, RefundSettings, TimeoutSettings,
};
pub use timeout_sweep::TimeoutSweep;
