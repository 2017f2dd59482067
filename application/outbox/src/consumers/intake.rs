//! Receives the deliveries of one subscription in groups. While a full group is applied, the next full one may begin beside it,
//! without the aggregates of the first. A store with a single writer gains nothing from this: its groups would be half as large,
//! with twice as many commits one after the other.

use std::collections::{BTreeSet, VecDeque};

use handover_events::AggregateRef;

use super::event_processor::EventProcessor;
use super::identity::ParsedDelivery;
use crate::ports::{BrokerError, Subscription};
use crate::settings::ConsumeOrder;

/// The deliveries of one subscription that are not in a group yet, and the aggregates of the groups that are applied.
pub(super) struct Intake<'w> {
    subscription: &'w dyn Subscription,
    /// Maximum number of deliveries in a group.
    full: usize,
    /// Maximum number of groups that are applied at the same time.
    max_groups: usize,
    /// Number of groups since the last full one, which shows that others follow.
    since_full: usize,
    /// The aggregates of each group that is applied, in the order in which they began.
    applied: VecDeque<BTreeSet<AggregateRef>>,
    waiting: Vec<ParsedDelivery>,
}

impl<'w> Intake<'w> {
    pub(super) fn new(processor: &EventProcessor, subscription: &'w dyn Subscription) -> Intake<'w> {
        let prefetch = usize::from(processor.settings.prefetch.get());
        let outbox = &processor.outbox;
        // The broker can deliver a second group during the first one only if both fit into the prefetch. The rows of another
        // outbox's events are added in the order in which they arrive.
        let is_paired = prefetch > 1
            && !outbox.tx.store().has_single_writer()
            && outbox.receives_from(processor.queue()).is_none();
        let max_groups = if is_paired { 2 } else { 1 };
        Intake {
            subscription,
            full: prefetch.div_ceil(max_groups),
            max_groups,
            since_full: usize::MAX,
            applied: VecDeque::new(),
            waiting: Vec::new(),
        }
    }

    /// Waits for the next group: at least one delivery. Beside another group only a full one begins: otherwise the
    /// deliveries are committed together afterwards. The caller MUST end the groups in their order, with
    /// [`Intake::end`]. A cancelled call loses no delivery.
    pub(super) async fn next(&mut self) -> Result<Vec<ParsedDelivery>, BrokerError> {
        loop {
            // A broker may divide a backlog into groups of any size.
            let may_pair = self.since_full <= self.max_groups && self.applied.len() < self.max_groups;
            if !may_pair && !self.applied.is_empty() {
                return std::future::pending().await;
            }
            if let Some(group) = self.group() {
                return Ok(group);
            }
            let deliveries = self.subscription.next().await?;
            self.waiting.extend(deliveries.into_iter().map(ParsedDelivery::of));
        }
    }

    /// Ends the group that began first.
    pub(super) fn end(&mut self) {
        self.applied.pop_front();
    }

    fn group(&mut self) -> Option<Vec<ParsedDelivery>> {
        let least = if self.applied.is_empty() { 1 } else { self.full };
        if self.waiting.len() < least {
            return None;
        }
        let is_full = self.waiting.len() >= self.full;
        self.since_full = if is_full { 0 } else { self.since_full.saturating_add(1) };
        let mut later = self.waiting.split_off(self.full.min(self.waiting.len()));
        let aggregate = |parsed: &ParsedDelivery| parsed.lane(ConsumeOrder::Sequence);
        let is_applied = |parsed: &ParsedDelivery| {
            let aggregate = aggregate(parsed);
            self.applied.iter().any(|applied| applied.contains(&aggregate))
        };
        let (mut held, group): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(is_applied);
        held.append(&mut later);
        self.waiting = held;
        if group.is_empty() {
            return None;
        }
        self.applied.push_back(group.iter().map(aggregate).collect());
        Some(group)
    }
}
