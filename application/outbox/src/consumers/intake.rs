//! Receives the deliveries of one subscription in groups. Two full groups are applied at the same time, without common
//! aggregates. A store with a single writer gains nothing from this: its groups would be half as large, with twice as many commits
//! one after the other.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use handover_events::AggregateRef;
use tokio::time::Instant;

use super::event_processor::EventProcessor;
use super::identity::ParsedDelivery;
use crate::ports::{BrokerError, Subscription};
use crate::settings::ConsumeOrder;

/// Time during which groups are applied one after the other if two at the same time were slow: they wait for locks of each other.
const UNPAIRED_FOR: Duration = Duration::from_secs(60);

/// The deliveries of one subscription that are not in a group yet, and the groups that are applied.
pub(super) struct Intake<'w> {
    subscription: &'w dyn Subscription,
    /// Maximum number of deliveries in a group.
    full: usize,
    /// Maximum number of groups that are applied at the same time.
    max_groups: usize,
    unpaired_until: Instant,
    /// Number of smaller groups since the last full one.
    since_full: usize,
    /// The groups that are applied, in the order in which they began.
    applied: VecDeque<AppliedGroup>,
    waiting: Vec<ParsedDelivery>,
}

struct AppliedGroup {
    aggregates: BTreeSet<AggregateRef>,
    /// Whether another group was applied at the same time.
    was_paired: bool,
}

impl<'w> Intake<'w> {
    pub(super) fn new(processor: &'w EventProcessor, subscription: &'w dyn Subscription) -> Intake<'w> {
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
            full: prefetch / max_groups,
            max_groups,
            unpaired_until: Instant::now(),
            since_full: usize::MAX,
            applied: VecDeque::new(),
            waiting: Vec::new(),
        }
    }

    /// Waits for the next group: at least one delivery. Beside another group it begins only if about a full one waits: otherwise
    /// the deliveries are committed together afterwards. The caller MUST end the groups in their order, with [`Intake::end`]. A
    /// cancelled call loses no delivery.
    pub(super) async fn next(&mut self) -> Result<Vec<ParsedDelivery>, BrokerError> {
        loop {
            if !self.applied.is_empty() && !self.may_pair() {
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

    /// The group that began first was slow. Returns whether others may be applied as a group.
    pub(super) fn slowed_down(&mut self) -> bool {
        let was_paired = self.applied.front().is_some_and(|group| group.was_paired);
        if was_paired {
            self.unpaired_until = Instant::now() + UNPAIRED_FOR;
        }
        was_paired
    }

    /// Whether a group may begin beside another one. A broker may deliver a backlog in parts of any size, so after a full group a
    /// few smaller ones are no end of the backlog.
    fn may_pair(&self) -> bool {
        self.applied.len() < self.max_groups
            && self.since_full <= self.max_groups
            && Instant::now() >= self.unpaired_until
    }

    fn group(&mut self) -> Option<Vec<ParsedDelivery>> {
        // Deliveries in lanes occupy slots of the prefetch, too.
        let least = if self.applied.is_empty() { 1 } else { self.full - self.full / 4 };
        if self.waiting.len() < least {
            return None;
        }
        let mut later = self.waiting.split_off(self.full.min(self.waiting.len()));
        let aggregate = |parsed: &ParsedDelivery| parsed.lane(ConsumeOrder::Sequence);
        let is_applied = |parsed: &ParsedDelivery| {
            let aggregate = aggregate(parsed);
            self.applied.iter().any(|applied| applied.aggregates.contains(&aggregate))
        };
        let is_full = self.waiting.len() >= self.full;
        let (mut held, group): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(is_applied);
        held.append(&mut later);
        self.waiting = held;
        if group.is_empty() {
            return None;
        }
        self.since_full = if is_full { 0 } else { self.since_full.saturating_add(1) };
        let was_paired = !self.applied.is_empty();
        self.applied.iter_mut().for_each(|other| other.was_paired = true);
        let aggregates = group.iter().map(aggregate).collect();
        self.applied.push_back(AppliedGroup { aggregates, was_paired });
        Some(group)
    }
}
