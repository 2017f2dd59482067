//! The promise about webhooks.

use std::collections::BTreeSet;

use handover_events::EventId;
use handover_outbox::ports::DeliveryState;

use super::promise::{Evidence, Promise, Violations, promise};

/// Promise: every event that the consumer of webhooks takes arrived at the receiver, which failed, hung and was down, with a
/// valid signature.
pub(super) fn delivered(evidence: &Evidence<'_>) -> Promise {
    let record = evidence.webhooks;
    let mut violations = Violations::default();
    let takes = |event_type: &str| {
        let webhooks = evidence.consumers.iter().find(|consumer| consumer.name == "webhooks");
        webhooks.is_some_and(|consumer| consumer.event_types.contains(event_type))
    };
    // Events about the endpoint itself are not sent to it.
    let events = evidence.database.market_events().filter(|event| takes(&event.event_type));
    let due: BTreeSet<&EventId> = events.map(|event| &event.event_id).collect();
    for event in due.iter().filter(|event| !record.accepted.contains(**event)) {
        violations.add(|| format!("{event} did not arrive"));
    }
    for delivery in &evidence.database.webhooks {
        if delivery.state != DeliveryState::Delivered {
            violations
                .add(|| format!("the delivery of {} is {}", delivery.event_id, delivery.state.as_str()));
        }
    }
    if evidence.database.webhooks.len() != due.len() {
        let deliveries = evidence.database.webhooks.len();
        violations.add(|| format!("{deliveries} deliveries for {} events", due.len()));
    }
    if record.unverified > 0 {
        violations.add(|| format!("{} requests with a wrong signature", record.unverified));
    }
    if record.refused == 0 {
        violations.add(|| "the receiver refused nothing, so nothing was repeated".to_owned());
    }
    let arrived = record.accepted.iter().filter(|event| due.contains(event)).count();
    promise(
        "webhooks reach a receiver that fails",
        format!("{} events", due.len()),
        format!("{arrived} events, {} requests refused", record.refused),
        &violations,
    )
}
