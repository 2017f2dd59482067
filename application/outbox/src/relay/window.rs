//! One window: published round by round, so that an event follows only a confirmed one of its aggregate, then settled
//! in one transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use handover_events::{EventId, OutboxStatus, Retry};
use tracing::warn;

use super::Relay;
use super::message::outgoing;
use super::ownership::Surplus;
use super::settlement::Results;
use crate::foreign::storable;
use crate::mutants::{Mutant, claimed, planted};
use crate::ports::{
    BrokerError, Confirmed, FailedPublish, OutboxRow, Outgoing, PublishOutcome, StoreError, UnorderedTypes,
};
use crate::settings::OnOutage;
use crate::texts;

/// The longest `last_error`, in bytes.
const MAX_ERROR_BYTES: usize = 4 * 1024;

/// How long a relay that is to stop waits for the confirms of its last window.
const LAST_CONFIRM: Duration = Duration::from_secs(3);

/// How a window ended.
pub(super) enum WindowEnd {
    /// Everything is settled.
    Settled,
    /// The broker is away; what was being sent waits.
    BrokerAway,
}

impl Relay {
    pub(super) async fn publish_window(&mut self, due: Vec<OutboxRow>) -> Result<WindowEnd, StoreError> {
        let mut results = Results::default();
        let mut stuck: BTreeSet<(i64, String, i64)> = BTreeSet::new();
        // The epochs in which the rows were read: what is found out about them counts in no other.
        let holds = self.ownership.holds();
        let registry = Arc::clone(&self.outbox.registry);
        let unordered = registry.unordered();
        for round in rounds(&due, unordered) {
            let owned = self.ownership.owned_since(&holds);
            let ready: Vec<&OutboxRow> = round
                .into_iter()
                .filter(|row| owned.contains(row.partition()) && !stuck.contains(&lane(row, unordered)))
                .collect();
            self.publish_round(&ready, &mut results).await;
            let done: BTreeSet<&EventId> = results.confirmed.iter().map(Confirmed::event_id).collect();
            let undone = ready.iter().filter(|row| !done.contains(&row.event_id));
            stuck.extend(
                undone.filter(|_| !planted(Mutant::PublishOvertakesFailed)).map(|row| lane(row, unordered)),
            );
            if results.broker_away || self.outbox.tx.tasks.stopping().is_cancelled() {
                break;
            }
        }
        let away = results.broker_away;
        self.settle(&due, holds, results).await?;
        Ok(if away { WindowEnd::BrokerAway } else { WindowEnd::Settled })
    }

    async fn publish_round(&mut self, ready: &[&OutboxRow], results: &mut Results) {
        let (mut window, mut sent) = (Vec::with_capacity(ready.len()), Vec::with_capacity(ready.len()));
        for row in ready {
            match outgoing(&self.outbox.registry, row) {
                Ok(message) => {
                    window.push(message);
                    sent.push(*row);
                }
                Err(why) if planted(Mutant::UnsendableRetried) => {
                    results.failed.push(self.charged(row, &why));
                }
                Err(why) => results.failed.push(unsendable(row, &why)),
            }
        }
        if window.is_empty() {
            return;
        }
        let rows: BTreeMap<&EventId, &OutboxRow> = sent.iter().map(|row| (&row.event_id, *row)).collect();
        let answer = self.publish(window).await;
        if planted(Mutant::MarkSentBeforeConfirm) {
            return results.confirmed.extend(sent.iter().filter_map(|row| claimed(row)));
        }
        match answer {
            Ok(outcomes) => self.sort(outcomes, &rows, results),
            Err(BrokerError::Refused { what }) => {
                warn!(%what, "[OutboxRelay] the broker refused a window; publishing it one by one");
                self.publish_singly(&sent, results).await;
            }
            Err(gone @ (BrokerError::Unreachable(_) | BrokerError::Closed { .. })) => {
                if self.pause == super::FIRST_PAUSE {
                    warn!(error = %gone, "[OutboxRelay] [ALERT] the broker is away; {} events and more wait", sent.len());
                }
                results.broker_away = true;
                results.failed.extend(sent.iter().filter_map(|row| self.waiting(row, &gone.to_string())));
            }
        }
    }

    /// Finds the message for which the broker closes the door, and charges it alone.
    async fn publish_singly(&mut self, ready: &[&OutboxRow], results: &mut Results) {
        for row in ready {
            if self.outbox.tx.tasks.stopping().is_cancelled() {
                return;
            }
            let Ok(message) = outgoing(&self.outbox.registry, row) else { continue };
            match self.publish(vec![message]).await {
                Ok(outcomes) => self.sort(outcomes, &BTreeMap::from([(&row.event_id, *row)]), results),
                Err(BrokerError::Refused { what }) => results.failed.push(self.charged(row, &what)),
                Err(gone @ (BrokerError::Unreachable(_) | BrokerError::Closed { .. })) => {
                    results.broker_away = true;
                    results.failed.extend(self.waiting(row, &gone.to_string()));
                    return;
                }
            }
        }
    }

    /// Publishes and waits for the confirms, keeping the lease meanwhile.
    ///
    /// The publish is a task of its own: it goes on while a lease is renewed, which on one database may have to wait for
    /// the very connection that the publish holds.
    async fn publish(&mut self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let (broker, limit) = (Arc::clone(&self.outbox.broker), self.settings.confirm_timeout);
        let stopping = self.outbox.tx.tasks.stopping().clone();
        let publish = async move {
            tokio::select! {
                biased;
                answer = tokio::time::timeout(limit, broker.publish(window)) => answer,
                late = async {
                    stopping.cancelled().await;
                    tokio::time::timeout(LAST_CONFIRM, std::future::pending()).await
                } => late,
            }
        };
        let mut answer = self.outbox.tx.tasks.spawn(publish);
        loop {
            tokio::select! {
                biased;
                outcome = &mut answer => {
                    return match outcome {
                        Ok(Some(Ok(answer))) => answer,
                        Ok(Some(Err(_))) => {
                            Err(BrokerError::Unreachable(format!("no confirm within {limit:?}").into()))
                        }
                        Ok(None) => Err(BrokerError::Unreachable("the process is ending".into())),
                        Err(panic) => Err(BrokerError::Unreachable(Box::new(panic))),
                    };
                }
                () = self.outbox.tx.clock.sleep(self.ownership.until_tick()) => {
                    if let Err(error) = self.ownership.tick_if_due(Surplus::Keep).await {
                        warn!(%error, "[OutboxRelay] the leases were not renewed");
                        self.outbox.tx.clock.sleep(super::FIRST_PAUSE).await;
                    }
                }
            }
        }
    }

    fn sort(
        &self,
        outcomes: Vec<PublishOutcome>,
        rows: &BTreeMap<&EventId, &OutboxRow>,
        results: &mut Results,
    ) {
        let mut unanswered = rows.clone();
        for outcome in outcomes {
            let Some(row) = unanswered.remove(outcome.event_id()) else { continue };
            match outcome {
                PublishOutcome::Confirmed(confirmed) => results.confirmed.push(confirmed),
                PublishOutcome::Returned { .. } if planted(Mutant::IgnoreReturns) => {
                    results.confirmed.extend(claimed(row));
                }
                PublishOutcome::Unknown { .. } if planted(Mutant::UnknownIsConfirmed) => {
                    results.confirmed.extend(claimed(row));
                }
                PublishOutcome::Returned { reason, .. } => {
                    results.failed.push(self.charged(row, &format!("returned: {reason}")));
                }
                PublishOutcome::Nacked { reason, .. } => {
                    results.failed.push(self.charged(row, &format!("refused: {reason}")));
                }
                PublishOutcome::Unknown { reason, .. } => {
                    results.broker_away = true;
                    results.failed.extend(self.waiting(row, &reason));
                }
            }
        }
        if !unanswered.is_empty() {
            results.broker_away = true;
            results.failed.extend(unanswered.values().filter_map(|row| self.waiting(row, "no answer")));
        }
    }

    /// A failure of this event: one attempt spent.
    fn charged(&self, row: &OutboxRow, why: &str) -> FailedPublish {
        let before =
            if row.retry_count > 0 && planted(Mutant::PublishRetriesUnbounded) { 0 } else { row.retry_count };
        let retry_count = before.saturating_add(1);
        let failures = NonZeroU32::MIN.saturating_add(before);
        let next = match self.settings.retry.after(failures, self.outbox.tx.chance.next()) {
            Retry::After(_)
                if retry_count <= row.max_retry_count && planted(Mutant::PublishBackoffIgnored) =>
            {
                Some(self.outbox.now())
            }
            Retry::After(delay) if retry_count <= row.max_retry_count => {
                TimeDelta::from_std(delay).ok().map(|delay| self.outbox.now() + delay)
            }
            Retry::After(_) | Retry::GiveUp => None,
        };
        FailedPublish {
            event_id: row.event_id.clone(),
            status: if next.is_some() { OutboxStatus::Retry } else { OutboxStatus::Failed },
            retry_count,
            next_retry_time: next,
            error: publish_failed(why),
        }
    }

    /// An outage: the event waits and spends nothing, unless the setting says otherwise. One that already waits so
    /// needs no write.
    fn waiting(&self, row: &OutboxRow, why: &str) -> Option<FailedPublish> {
        match self.settings.on_outage {
            OnOutage::Count => Some(self.charged(row, why)),
            OnOutage::Wait if planted(Mutant::OutageSpendsAttempts) => Some(self.charged(row, why)),
            OnOutage::Wait if row.status == OutboxStatus::Retry && row.next_retry_time.is_none() => None,
            OnOutage::Wait => Some(FailedPublish {
                event_id: row.event_id.clone(),
                status: OutboxStatus::Retry,
                retry_count: row.retry_count,
                next_retry_time: None,
                error: publish_failed(why),
            }),
        }
    }
}

/// A row that can never be sent: given up at its first attempt, or the real events of its aggregate would wait behind it.
fn unsendable(row: &OutboxRow, why: &str) -> FailedPublish {
    FailedPublish {
        event_id: row.event_id.clone(),
        status: OutboxStatus::Failed,
        retry_count: row.retry_count.saturating_add(1),
        next_retry_time: None,
        error: publish_failed(why),
    }
}

/// What `last_error` says. It may quote a payload that others wrote.
fn publish_failed(why: &str) -> String {
    storable(&format!("{}: {why}", texts::PUBLISH_FAILED), MAX_ERROR_BYTES).into_owned()
}

/// The n-th round holds the n-th event of each aggregate; what has no place in an order goes at once.
fn rounds<'r>(due: &'r [OutboxRow], unordered: &UnorderedTypes) -> Vec<Vec<&'r OutboxRow>> {
    let mut rounds: Vec<Vec<&OutboxRow>> = Vec::new();
    let mut depth: BTreeMap<(i64, String, i64), usize> = BTreeMap::new();
    for row in due {
        let round = if unordered.is_ordered(&row.event_type) {
            let depth = depth.entry(lane(row, unordered)).or_insert(0);
            *depth += 1;
            *depth - 1
        } else {
            0
        };
        if rounds.len() <= round {
            rounds.resize_with(round + 1, Vec::new);
        }
        if let Some(rows) = rounds.get_mut(round) {
            rows.push(row);
        }
    }
    rounds
}

/// What an event must not overtake within.
fn lane(row: &OutboxRow, unordered: &UnorderedTypes) -> (i64, String, i64) {
    if unordered.is_ordered(&row.event_type) {
        (row.aggregate.tenant.get(), row.aggregate.kind.clone(), row.aggregate.id)
    } else {
        (0, row.event_id.as_str().to_owned(), 0)
    }
}
