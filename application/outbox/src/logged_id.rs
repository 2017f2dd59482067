//! The id of an aggregate as a field of a log line: a number or a string, as in JSON.

use handover_events::AggregateId;
use tracing::Value;

pub(crate) fn logged_id(id: &AggregateId) -> Box<dyn Value + '_> {
    match id.key() {
        Some(key) => Box::new(key),
        None => Box::new(id.number()),
    }
}
