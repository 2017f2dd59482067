//! JSON representations of rows and results, used by the API and the command line.
//!
//! A view lists exactly the fields that a client sees. Its fields are private, because it is only serialized.

mod actions;
mod consumers;
mod counts;
mod outbox;
mod time;

pub use actions::{DiscardView, RedriveView, ReleaseView, ReplayView};
pub use consumers::{AuditView, ConsumptionView, DeadLetterView};
pub use counts::{QueueView, StatsView};
pub use outbox::{BlockedView, EventView};
pub use time::Time;
