//! Receives the deliveries of one subscription in groups. While a full group is applied, the next one is received, and its
//! rows are read. A store with a single writer gains nothing from this: its groups would be half as large, with twice as many
//! commits one after the other.

use std::collections::BTreeSet;

use handover_events::AggregateRef;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::event_processor::EventProcessor;
use super::group::{GroupOutcome, Groups, aggregate_of};
use super::identity::ParsedDelivery;
use super::lanes::Lanes;
use super::read_ahead::ReadAhead;
use crate::ports::{BrokerError, StoreError, Subscription, Unapplied};

/// The next group of deliveries, and the rows that were read for it.
pub(super) struct Received {
    pub(super) deliveries: Vec<ParsedDelivery>,
    pub(super) read_ahead: Option<ReadAhead>,
}

/// The deliveries of one subscription that are not in a group yet.
pub(super) struct Intake<'w> {
    processor: &'w EventProcessor,
    subscription: &'w dyn Subscription,
    /// Maximum number of deliveries in a group.
    full: usize,
    reads_ahead: bool,
    waiting: Vec<ParsedDelivery>,
    /// Rows of the first deliveries that wait.
    read_ahead: Option<ReadAhead>,
    /// Error of the subscription while a group was applied.
    ended: Option<BrokerError>,
}

impl<'w> Intake<'w> {
    pub(super) fn new(processor: &'w EventProcessor, subscription: &'w dyn Subscription) -> Intake<'w> {
        let prefetch = usize::from(processor.settings.prefetch.get());
        let outbox = &processor.outbox;
        // The broker can deliver the next group during this one only if both fit into the prefetch. Events of another outbox have
        // no rows yet.
        let reads_ahead = prefetch > 1
            && !outbox.tx.store().has_single_writer()
            && outbox.receives_from(processor.queue()).is_none();
        let full = if reads_ahead { prefetch.div_ceil(2) } else { prefetch };
        Intake {
            processor,
            subscription,
            full,
            reads_ahead,
            waiting: Vec::new(),
            read_ahead: None,
            ended: None,
        }
    }

    /// Waits for the next group: at least one delivery. A cancelled call loses none.
    pub(super) async fn next(&mut self) -> Result<Received, BrokerError> {
        if let Some(error) = self.ended.take() {
            return Err(error);
        }
        if self.waiting.is_empty() {
            self.receive().await?;
        }
        let later = self.waiting.split_off(self.full.min(self.waiting.len()));
        let deliveries = std::mem::replace(&mut self.waiting, later);
        Ok(Received { deliveries, read_ahead: self.read_ahead.take() })
    }

    async fn receive(&mut self) -> Result<(), BrokerError> {
        let deliveries = self.subscription.next().await?;
        self.waiting.extend(deliveries.into_iter().map(ParsedDelivery::of));
        Ok(())
    }

    /// Applies a group. A full group shows that others follow: the next one is received and read meanwhile.
    pub(super) async fn apply(
        &mut self,
        group: Vec<ParsedDelivery>,
        read_ahead: Option<ReadAhead>,
        lanes: &Lanes,
    ) -> GroupOutcome {
        let processor = self.processor;
        if !self.reads_ahead || group.len() < self.full {
            return Groups::of(processor).apply(group, read_ahead).await;
        }
        let busy: BTreeSet<AggregateRef> = group.iter().filter_map(aggregate_of).collect();
        let applied = CancellationToken::new();
        let applying = async {
            let outcome = Groups::of(processor).apply(group, read_ahead).await;
            applied.cancel();
            outcome
        };
        let reading = async {
            while self.waiting.len() < self.full {
                let received = tokio::select! {
                    biased;
                    () = applied.cancelled() => return,
                    received = self.receive() => received,
                };
                if let Err(error) = received {
                    self.ended = Some(error);
                    return;
                }
            }
            if !applied.is_cancelled() {
                self.read(&busy.union(&lanes.aggregates()).cloned().collect()).await;
            }
        };
        tokio::join!(applying, reading).0
    }

    /// Reads the unsettled events of the next group, except those of `busy` aggregates.
    async fn read(&mut self, busy: &BTreeSet<AggregateRef>) {
        let group = self.waiting.iter().take(self.full);
        let aggregates: BTreeSet<AggregateRef> =
            group.filter_map(aggregate_of).filter(|aggregate| !busy.contains(aggregate)).collect();
        match self.unapplied(&aggregates).await {
            // The worker that has recorded an event may settle it at any time.
            Ok(unapplied) if unapplied.iter().any(|one| one.record.is_some()) => {}
            Ok(unapplied) => self.read_ahead = Some(ReadAhead::new(aggregates, unapplied)),
            Err(error) => {
                debug!(code = "consumer.read-ahead-failed", %error, consumer = self.processor.name(), "[{}] reading ahead failed; the group reads again", self.processor.name());
            }
        }
    }

    async fn unapplied(&self, aggregates: &BTreeSet<AggregateRef>) -> Result<Vec<Unapplied>, StoreError> {
        let aggregates: Vec<AggregateRef> = aggregates.iter().cloned().collect();
        let mut view = self.processor.outbox.view().await?;
        self.processor.unapplied(view.outbox_view(), &aggregates).await
    }
}
