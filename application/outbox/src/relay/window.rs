//! Publishes one window in rounds, so that an ordered event is published only after the previous event of its aggregate
//! is confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use handover_events::{EventId, OutboxStatus, Retry};
use tracing::{Span, warn};

use super::owned_leases::OwnedLeases;
use crate::figures::CONFIRMED;
use crate::message::outgoing;
use crate::metrics::{PUBLISH_SECONDS, PUBLISHES, seconds};
use crate::outbox::Outbox;
use crate::ports::{
    BrokerError, Confirmed, FailedPublish, OutboxRow, Outgoing, OwnedPartition, PublishOutcome,
    UnorderedTypes,
};
use crate::settings::{OnOutage, RelaySettings};
use crate::spans::failed;
use crate::storable_text::storable;

/// Longest `last_error` in bytes.
const MAX_ERROR_BYTES: usize = 4 * 1024;

/// Longest time that a stopping relay waits for the confirms of its last window.
const SHUTDOWN_CONFIRM_TIMEOUT: Duration = Duration::from_secs(3);

/// Length of the payloads that are published at once, unless one is longer. A broker has to confirm them within the time limit: more of
/// them would be published again and again.
const MAX_PART_BYTES: usize = 1024 * 1024;

/// Length of the payloads that a window should not exceed: up to three windows are in memory at a time.
const MAX_WINDOW_BYTES: usize = 8 * 1024 * 1024;

/// Results of publishing a window.
#[derive(Default)]
pub(super) struct Results {
    pub(super) confirmed: Vec<Confirmed>,
    pub(super) failed: Vec<FailedPublish>,
    /// Why each publish failed.
    pub(super) causes: BTreeMap<EventId, FailureCause>,
    /// Why the broker is unreachable; unconfirmed events stay in the outbox. `None`: it was reachable.
    pub(super) outage: Option<String>,
}

impl Results {
    fn fail(&mut self, failed: FailedPublish, cause: FailureCause) {
        self.causes.insert(failed.event_id.clone(), cause);
        self.failed.push(failed);
    }
}

/// Why a publish failed, for its log line.
#[derive(Debug, Clone)]
pub(super) struct FailureCause {
    /// Stable code.
    pub(super) code: &'static str,
    /// The error and its sources.
    pub(super) chain: String,
}

impl FailureCause {
    fn new(code: &'static str, why: &str) -> FailureCause {
        FailureCause { code, chain: why.to_owned() }
    }

    fn of(error: &BrokerError) -> FailureCause {
        let code = match error {
            BrokerError::Unreachable(_) => "unreachable",
            BrokerError::Closed { .. } => "closed",
            BrokerError::Refused { .. } => "refused",
        };
        FailureCause { code, chain: chain_of(error) }
    }
}

/// Texts of an error and of its sources, without those that the text before contains.
fn chain_of(error: &dyn Error) -> String {
    let mut chain = error.to_string();
    let mut last = chain.clone();
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        if !last.contains(&text) {
            chain.push_str(": ");
            chain.push_str(&text);
        }
        last = text;
        source = error.source();
    }
    chain
}

/// Publishes the rows of one window.
pub(super) struct Window {
    pub(super) outbox: Outbox,
    pub(super) settings: Arc<RelaySettings>,
    pub(super) leases: OwnedLeases,
    /// Epochs at which the rows were read: a row is published only while its partition still has this epoch.
    pub(super) owned_partitions: Vec<OwnedPartition>,
    pub(super) publishes: Publishes,
}

/// Number of publishes of one relay that have not ended. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Publishes(Arc<AtomicU32>);

impl Publishes {
    fn begin(&self) -> Publish {
        Publish { publishes: self.clone(), number: self.0.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

struct Publish {
    publishes: Publishes,
    /// Number of publishes when it began, this one included.
    number: u32,
}

impl Drop for Publish {
    fn drop(&mut self) {
        self.publishes.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Window {
    pub(super) async fn publish(&self, due: &[OutboxRow]) -> Results {
        let mut results = Results::default();
        let mut blocked_sequences: BTreeSet<SequenceKey<'_>> = BTreeSet::new();
        let unordered = self.outbox.registry.unordered();
        for round in rounds(due, unordered) {
            if results.outage.is_some() || self.outbox.stopping().is_cancelled() {
                break;
            }
            let owned = self.leases.valid_since(&self.owned_partitions);
            let ready: Vec<&OutboxRow> = round
                .into_iter()
                .filter(|row| {
                    owned.contains(row.partition())
                        && !blocked_sequences.contains(&sequence_key(row, unordered))
                })
                .collect();
            let confirmed_before = results.confirmed.len();
            for part in parts(&ready) {
                if results.outage.is_some() || self.outbox.stopping().is_cancelled() {
                    break;
                }
                self.publish_part(part, &mut results).await;
            }
            let confirmed = results.confirmed.iter().skip(confirmed_before);
            let done: BTreeSet<&EventId> = confirmed.map(Confirmed::event_id).collect();
            let unconfirmed = ready.iter().filter(|row| !done.contains(&row.event_id));
            blocked_sequences.extend(unconfirmed.map(|row| sequence_key(row, unordered)));
        }
        results
    }

    async fn publish_part(&self, ready: &[&OutboxRow], results: &mut Results) {
        let mut window = Vec::with_capacity(ready.len());
        let mut sent = Vec::with_capacity(ready.len());
        let mut spans = BTreeMap::new();
        for row in ready {
            match self.message(row) {
                Ok((message, span)) => {
                    spans.insert(&row.event_id, span);
                    window.push(message);
                    sent.push(*row);
                }
                Err(why) => {
                    results.fail(self.unsendable(row, &why), FailureCause::new("not-publishable", &why));
                }
            }
        }
        if window.is_empty() {
            return;
        }
        let rows: BTreeMap<&EventId, &OutboxRow> = sent.iter().map(|row| (&row.event_id, *row)).collect();
        let begun = self.outbox.now();
        let confirmed = self.confirm(window).await;
        metrics::histogram!(PUBLISH_SECONDS).record(seconds(self.outbox.now() - begun));
        match confirmed {
            Ok(outcomes) => self.record_outcomes(outcomes, &rows, &spans, results),
            Err(BrokerError::Refused { what }) => {
                spans.values().for_each(|span| failed(span, "refused"));
                drop(spans);
                warn!(code = "relay.window-rejected", %what, "[OutboxRelay] broker rejected a window; publishing its events one by one");
                self.publish_one_by_one(&sent, results).await;
            }
            Err(error @ (BrokerError::Unreachable(_) | BrokerError::Closed { .. })) => {
                spans.values().for_each(|span| failed(span, "unreachable"));
                let cause = FailureCause::of(&error);
                self.count_publishes("unreachable", sent.len());
                for row in &sent {
                    self.defer(row, &error.to_string(), cause.clone(), results);
                }
            }
        }
    }

    /// The message of a row, and the span in which it is published.
    fn message(&self, row: &OutboxRow) -> Result<(Outgoing, Span), String> {
        let mut span = Span::none();
        let message = outgoing(&self.outbox.registry, &self.outbox.texts, row, |routing_key| {
            let spans = self.outbox.spans.as_ref()?;
            span = spans.publish(row, &self.outbox.topology.exchange, routing_key);
            spans.traceparent(&span)
        })?;
        let excluded = match row.idle_consumers.is_empty() {
            true => BTreeSet::new(),
            false => self.outbox.queues_of(&row.idle_consumers),
        };
        Ok((message.excluding(excluded), span))
    }

    /// Finds the messages that the broker rejects, and counts a failure only for their events.
    async fn publish_one_by_one(&self, ready: &[&OutboxRow], results: &mut Results) {
        for row in ready {
            if self.outbox.stopping().is_cancelled() {
                return;
            }
            let Ok((message, span)) = self.message(row) else { continue };
            match self.confirm(vec![message]).await {
                Ok(outcomes) => {
                    let rows = BTreeMap::from([(&row.event_id, *row)]);
                    let spans = BTreeMap::from([(&row.event_id, span)]);
                    self.record_outcomes(outcomes, &rows, &spans, results);
                }
                Err(BrokerError::Refused { what }) => {
                    failed(&span, "refused");
                    self.count_publishes("refused", 1);
                    results.fail(self.failed_attempt(row, &what), FailureCause::new("refused", &what));
                }
                Err(error @ (BrokerError::Unreachable(_) | BrokerError::Closed { .. })) => {
                    failed(&span, "unreachable");
                    self.count_publishes("unreachable", 1);
                    self.defer(row, &error.to_string(), FailureCause::of(&error), results);
                    return;
                }
            }
        }
    }

    /// Publishes and waits for the confirms. The broker may publish one window after the other, so the time limit includes
    /// the windows before this one.
    async fn confirm(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let publish = self.publishes.begin();
        let limit = self.settings.confirm_timeout * publish.number;
        let answer = tokio::select! {
            biased;
            answer = tokio::time::timeout(limit, self.outbox.broker.publish(window)) => answer,
            late = async {
                self.outbox.stopping().cancelled().await;
                tokio::time::timeout(SHUTDOWN_CONFIRM_TIMEOUT, std::future::pending()).await
            } => late,
        };
        answer
            .unwrap_or_else(|_| Err(BrokerError::Unreachable(format!("no confirm within {limit:?}").into())))
    }

    fn record_outcomes(
        &self,
        outcomes: Vec<PublishOutcome>,
        rows: &BTreeMap<&EventId, &OutboxRow>,
        spans: &BTreeMap<&EventId, Span>,
        results: &mut Results,
    ) {
        let mut missing = rows.clone();
        for outcome in outcomes {
            let Some(row) = missing.remove(outcome.event_id()) else { continue };
            let result = result_of(&outcome);
            self.count_publishes(result, 1);
            if let (Some(span), false) = (spans.get(&row.event_id), result == CONFIRMED) {
                failed(span, result);
            }
            match outcome {
                PublishOutcome::Confirmed(confirmed) => results.confirmed.push(confirmed),
                PublishOutcome::Returned { reason, .. } => {
                    let failed = self.failed_attempt(row, &format!("returned: {reason}"));
                    results.fail(failed, FailureCause::new("returned", &reason));
                }
                PublishOutcome::Nacked { reason, .. } => {
                    let failed = self.failed_attempt(row, &format!("refused: {reason}"));
                    results.fail(failed, FailureCause::new("refused", &reason));
                }
                PublishOutcome::Unknown { reason, .. } => {
                    self.defer(row, &reason, FailureCause::new("unknown", &reason), results);
                }
            }
        }
        let why = "no outcome reported";
        for row in missing.values() {
            self.defer(row, why, FailureCause::new("unknown", why), results);
        }
    }

    /// Result of a failed publish of this event, which counts as one attempt.
    fn failed_attempt(&self, row: &OutboxRow, why: &str) -> FailedPublish {
        let retry_count = row.retry_count.saturating_add(1);
        let failures = NonZeroU32::MIN.saturating_add(row.retry_count);
        let next = match self.settings.retry.after(failures, self.outbox.random().next()) {
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
            error: self.error_text(why),
        }
    }

    /// Records a publish that failed because of an outage.
    fn defer(&self, row: &OutboxRow, why: &str, cause: FailureCause, results: &mut Results) {
        results.outage.get_or_insert_with(|| cause.chain.clone());
        if let Some(failed) = self.deferred(row, why) {
            results.fail(failed, cause);
        }
    }

    /// Result of a publish that failed because of an outage: the event stays in the outbox, and with [`OnOutage::Wait`]
    /// no attempt is counted. `None`: an earlier outage set the row to the same values, so the row needs no write.
    fn deferred(&self, row: &OutboxRow, why: &str) -> Option<FailedPublish> {
        match self.settings.on_outage {
            OnOutage::Count => Some(self.failed_attempt(row, why)),
            OnOutage::Wait if row.status == OutboxStatus::Retry && row.next_retry_time.is_none() => None,
            OnOutage::Wait => Some(FailedPublish {
                event_id: row.event_id.clone(),
                status: OutboxStatus::Retry,
                retry_count: row.retry_count,
                next_retry_time: None,
                error: self.error_text(why),
            }),
        }
    }

    /// Result for a row that can never be published: FAILED at the first attempt, because retries would delay the later
    /// events of its aggregate.
    fn unsendable(&self, row: &OutboxRow, why: &str) -> FailedPublish {
        FailedPublish {
            event_id: row.event_id.clone(),
            status: OutboxStatus::Failed,
            retry_count: row.retry_count.saturating_add(1),
            next_retry_time: None,
            error: self.error_text(why),
        }
    }

    fn count_publishes(&self, result: &'static str, count: usize) {
        metrics::counter!(PUBLISHES, "result" => result).increment(count as u64);
        self.outbox.figures.published(self.outbox.now(), result, count);
    }

    /// Text of `last_error`. It may quote a payload from an untrusted source.
    fn error_text(&self, why: &str) -> String {
        storable(&self.outbox.texts.publish_failed(why), MAX_ERROR_BYTES).into_owned()
    }
}

/// Results of publishes, as values of a label.
fn result_of(outcome: &PublishOutcome) -> &'static str {
    match outcome {
        PublishOutcome::Confirmed(_) => CONFIRMED,
        PublishOutcome::Returned { .. } => "returned",
        PublishOutcome::Nacked { .. } => "refused",
        PublishOutcome::Unknown { .. } => "unknown",
    }
}

/// Divides the rows into rounds: round n contains the n-th ordered event of each aggregate, round 0 also all unordered
/// events.
fn rounds<'r>(due: &'r [OutboxRow], unordered: &UnorderedTypes) -> Vec<Vec<&'r OutboxRow>> {
    let mut rounds: Vec<Vec<&OutboxRow>> = Vec::new();
    let mut depth: BTreeMap<SequenceKey<'_>, usize> = BTreeMap::new();
    for row in due {
        let round = if unordered.is_ordered(&row.event_type) {
            let depth = depth.entry(sequence_key(row, unordered)).or_insert(0);
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

/// Maximum number of rows of the window after one of these rows, whose maximum was `batch`: as many as have payloads of
/// [`MAX_WINDOW_BYTES`] if those are as long, but at most twice as many as before.
pub(super) fn batch_after(rows: &[OutboxRow], batch: u32) -> u32 {
    let bytes: usize = rows.iter().map(|row| row.payload.len()).sum();
    let fitting = MAX_WINDOW_BYTES.saturating_mul(rows.len()) / bytes.max(1);
    u32::try_from(fitting).unwrap_or(u32::MAX).clamp(1, batch.saturating_mul(2))
}

/// Divides rows into parts of at most [`MAX_PART_BYTES`], with at least one row each.
fn parts<'a, 'r>(mut rows: &'a [&'r OutboxRow]) -> Vec<&'a [&'r OutboxRow]> {
    let mut parts = Vec::new();
    while !rows.is_empty() {
        let mut bytes = 0;
        let fits = |row: &&&OutboxRow| {
            bytes += row.payload.len();
            bytes <= MAX_PART_BYTES
        };
        let (part, rest) = rows.split_at(rows.iter().take_while(fits).count().max(1));
        parts.push(part);
        rows = rest;
    }
    parts
}

/// Tenant, type and id of an aggregate.
pub(super) type SequenceKey<'r> = (i64, &'r str, i64);

/// Key of the sequence that an event belongs to. Events of one sequence are published in order; each unordered event
/// has its own key.
pub(super) fn sequence_key<'r>(row: &'r OutboxRow, unordered: &UnorderedTypes) -> SequenceKey<'r> {
    if unordered.is_ordered(&row.event_type) {
        (row.aggregate.tenant.get(), &row.aggregate.kind, row.aggregate.id.number())
    } else {
        (0, row.event_id.as_str(), 0)
    }
}
