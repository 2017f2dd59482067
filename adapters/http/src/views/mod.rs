//! What is shown of rows: by the API, and by the command line under the same names.
//!
//! A view lists what its reader sees, and nothing else gets out; its fields are private, as JSON is all there is to it.

mod actions;
mod assets;
mod consumers;
mod counts;
mod outbox;
mod reconciliation;
mod timeline;

pub use actions::{DiscardView, RedriveView, ReleaseView, ReplayView};
pub use consumers::{AuditView, ConsumptionView, DeadLetterView};
pub use counts::{QueueView, StatsView};
pub use outbox::{BlockedView, EventView};
pub use reconciliation::ReconciliationView;
pub use timeline::TimelineView;

pub(crate) use assets::AssetAmount;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serializer;
use serde_json::Value;

/// UTC with `Z` and six fraction digits, so that times sort as text (spec §1 "time").
pub(crate) fn rfc3339<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.to_rfc3339_opts(SecondsFormat::Micros, true))
}

pub(crate) fn rfc3339_or_null<S: Serializer>(
    time: &Option<DateTime<Utc>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => rfc3339(time, serializer),
        None => serializer.serialize_none(),
    }
}

/// A row inserted by hand, or a stranger's message, may hold what is not JSON; it is shown as it is.
fn json_or_text(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}
