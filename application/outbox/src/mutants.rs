//! Planted faults (mutants), used to test the simulator: it must detect each of them.
//!
//! Each fault is one condition at the place that keeps a guarantee, and a mistake that a developer could make there.
//! At most one is active at a time, selected by name and per thread, because a simulated run has its own thread.
//! Without the feature `mutants` none can be activated: `planted` is `false` at compile time and the faulty branches
//! are not compiled into the program.
//!
//! To add one: add a variant that documents the guarantee and how the broken guarantee is observable, and call
//! `planted` as the *last* part of a condition, so that `struck` counts as few harmless evaluations as possible. The
//! compiler warns about a variant that is used nowhere.

use crate::ports::{Confirmed, Message, OutboxRow, Outgoing, PublishOutcome};

/// Declares the planted faults of a crate. The crate must have a feature `mutants` that enables the feature `mutants`
/// of this crate.
#[doc(hidden)]
#[macro_export]
macro_rules! planted_faults {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)+) => {
        /// A planted fault. Each variant documents the guarantee that it breaks and how this is observable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Mutant {
            $($(#[$doc])* $variant,)+
        }

        #[cfg(feature = "mutants")]
        impl Mutant {
            /// Every mutant of this crate.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$variant),+];

            /// Name in lists and on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Mutant::$variant => $name,)+
                }
            }
        }

        /// Whether this mutant is active on this thread.
        #[cfg(feature = "mutants")]
        pub(crate) fn planted(mutant: Mutant) -> bool {
            $crate::mutants::strikes(mutant.name())
        }

        /// Whether this mutant is active on this thread.
        #[cfg(not(feature = "mutants"))]
        #[inline(always)]
        pub(crate) const fn planted(_mutant: Mutant) -> bool {
            false
        }
    };
}

planted_faults! {
    // The relay.
    /// SENT means confirmed. Fault: every published row counts as confirmed, whatever the broker returns.
    ///
    /// Observable as: an event is SENT although no broker confirmed it.
    MarkSentBeforeConfirm => "mark-sent-before-confirm",
    /// SENT means routed to a queue. Fault: a returned message counts as confirmed.
    ///
    /// Observable as: an event is SENT although the broker returned every publish of it.
    IgnoreReturns => "ignore-returns",
    /// SENT means confirmed. Fault: a publish of unknown outcome counts as confirmed.
    ///
    /// Observable as: an event is SENT although no broker confirmed it.
    UnknownIsConfirmed => "unknown-is-confirmed",
    /// A partition is settled only by its owner. Fault: the result of the fence is ignored.
    ///
    /// Observable as: a committed unit changes rows of a partition that its own fence did not return.
    NoFence => "no-fence",
    /// A relay publishes a partition only while it owns the lease. Fault: ownership is kept in memory and never
    /// renewed.
    ///
    /// Observable as: a row is published by a relay without a valid lease of its partition; a partition changes its
    /// owner although the old owner still sends heartbeats and never released it.
    LeaseNotRenewed => "lease-not-renewed",
    /// `on-failed = hold` blocks an aggregate. Fault: the relay skips failed events as under `continue`.
    ///
    /// Observable as: under `Hold` an event is published while an earlier ordered event of its aggregate is FAILED
    /// and not released.
    RelayIgnoresHeld => "relay-ignores-held",
    /// Publish attempts are limited. Fault: failures are not added up.
    ///
    /// Observable as: an event has more than `max_retry_count + 1` counted publish attempts and is not FAILED.
    PublishRetriesUnbounded => "publish-retries-unbounded",
    /// A failed publish is retried after a backoff. Fault: the retry is due immediately.
    ///
    /// Observable as: two counted publish attempts of an event are closer together than the delay of the retry
    /// policy.
    PublishBackoffIgnored => "publish-backoff-ignored",
    /// Events of an aggregate are published in order. Fault: a window continues with the events after a failed one.
    ///
    /// Observable as: the broker confirms an event while an earlier ordered event of its aggregate is pending and was
    /// never confirmed.
    PublishOvertakesFailed => "publish-overtakes-failed",
    /// A broker outage does not count as an event's failure (`outage = wait`). Fault: it is counted.
    ///
    /// Observable as: `retry_count` exceeds the number of publishes that the broker returned or nacked; events are
    /// FAILED after nothing but an outage.
    OutageSpendsAttempts => "outage-spends-attempts",
    /// A row that can never be published is FAILED at its first attempt. Fault: it is retried like any other row.
    ///
    /// Observable as: a row without a readable payload becomes RETRY.
    UnsendableRetried => "unsendable-retried",

    // The consumers.
    /// Attempts are limited. Fault: each failure is recorded as the first.
    ///
    /// Observable as: an event has more failed attempts than the policy allows and is not DEAD; the run does not
    /// settle after the faults end.
    AttemptsNotCounted => "attempts-not-counted",
    /// A failed attempt is retried after a backoff. Fault: the retry is due immediately.
    ///
    /// Observable as: two failed attempts at an event are closer together than the delay of the retry policy.
    ConsumerBackoffIgnored => "consumer-backoff-ignored",
    /// Effect and consume-log record are one transaction. Fault: the handler's effects are committed first, in a
    /// separate unit.
    ///
    /// Observable as: effects of an event exist twice; a unit commits effects without the consume-log record of their
    /// event.
    DedupeOutsideTransaction => "dedupe-outside-transaction",
    /// An event is applied once. Fault: a duplicate that is processed individually is applied again.
    ///
    /// Observable as: effects of an event exist twice; a SUCCESS record in the consume log is overwritten.
    NoDedupe => "no-dedupe",
    /// The commit precedes the ack. Fault: deliveries are acked on arrival.
    ///
    /// Observable as: a delivery is acked while the consumer's log has no record of its event; after a crash only the
    /// sweep recovers the event.
    AckBeforeCommit => "ack-before-commit",
    /// A failed attempt is recorded and retried. Fault: the delivery is acked and nothing is recorded.
    ///
    /// Observable as: a delivery is acked while the consumer's log has no record of its event, or has it as
    /// PROCESSING.
    AckWhatFailed => "ack-what-failed",
    /// Effects of an aggregate are applied in order. Fault: each event is applied on arrival, in groups and
    /// individually.
    ///
    /// Observable as: effects of an order do not follow `aggregate_seq`; an event becomes SUCCESS while an earlier
    /// ordered event that is not FAILED in the outbox is unsettled.
    NoGate => "no-gate",
    /// A DEAD event has a dead letter. Fault: it becomes DEAD without one.
    ///
    /// Observable as: a committed unit makes an event DEAD and parks no dead letter; at the end of the run an event
    /// that became DEAD in the sweep has no dead letter. (For an event that became DEAD with its delivery, the
    /// drainer parks one later.)
    DeadWithoutLetter => "dead-without-letter",
    /// A message that is not an event of this outbox is parked for an operator. Fault: it is acked.
    ///
    /// Observable as: an unknown message is in no queue and has no dead letter.
    StrayMessageDropped => "stray-message-dropped",
    /// A dead letter is parked before it is acked. Fault: the drainer only acks it.
    ///
    /// Observable as: an unknown or broker-dead-lettered message is in no queue and has no dead letter.
    DrainerForgets => "drainer-forgets",
    /// An event that the broker loses after its confirm is applied from the outbox. Fault: the sweep does not look
    /// for lost events.
    ///
    /// Observable as: the run never settles; a SENT event is missing from a consumer's log.
    NoSweepForLost => "no-sweep-for-lost",
    /// Events left unsettled by a crash are applied by the sweep. Fault: the sweep skips them.
    ///
    /// Observable as: the run never settles; an event stays WAITING, FAILED or PROCESSING past its lease.
    LeftoversForgotten => "leftovers-forgotten",

    // Transactions.
    /// Only committed results are reported. Fault: a commit of unknown outcome counts as success.
    ///
    /// Observable as: a client received a result that does not exist; a delivery is acked while the consume log has
    /// no record of its event.
    UnknownCommitIsSuccess => "unknown-commit-is-success",

    // Operators.
    /// Operators see only their own tenant. Fault: they see every tenant.
    ///
    /// Observable as: an operator without the role `platform` reads or changes rows of another tenant.
    TenantIgnored => "tenant-ignored",
    /// A redrive changes each event once. Fault: after a commit of unknown outcome it is done again.
    ///
    /// Observable as: a response with a lower count than its audit entry; two audit entries for one call; an event
    /// redriven twice by one call.
    RedriveTwice => "redrive-twice",
    /// Every change by an operator is in the audit log. Fault: a redrive is not recorded.
    ///
    /// Observable as: a committed unit changes SENT or FAILED rows to RETRY and writes no audit entry.
    AuditForgotten => "audit-forgotten",
    /// A dead letter becomes REPLAYED after the confirm. Fault: it is closed before the publish.
    ///
    /// Observable as: a dead letter is REPLAYED while its event is unsettled and no broker confirmed the replay; the
    /// client is informed that it was not replayed.
    ReplayClosesLetterFirst => "replay-closes-letter-first",
    /// A replayed event is retried. Fault: the consume log keeps it DEAD.
    ///
    /// Observable as: a dead letter is REPLAYED and its event is DEAD in the consume log, without effect.
    ReplayLeavesLogDead => "replay-leaves-log-dead",
    /// A discarded event has no effect later. Fault: the consume log keeps it retryable.
    ///
    /// Observable as: a dead letter is DISCARDED and its event is not DEAD in the consume log, or has its effect.
    DiscardLeavesEventAlive => "discard-leaves-event-alive",
}

#[cfg(feature = "mutants")]
pub use switch::{plant, strikes, struck};

#[cfg(feature = "mutants")]
mod switch {
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
        static STRUCK: Cell<u64> = const { Cell::new(0) };
    }

    /// Activates the mutant of this name on this thread, or none. Replaces the previous one.
    pub fn plant(mutant: Option<&'static str>) {
        PLANTED.set(mutant);
        STRUCK.set(0);
    }

    /// How often the active mutant's branch was taken. If it is 0, the run does not test the oracle.
    pub fn struck() -> u64 {
        STRUCK.get()
    }

    /// Whether the mutant of this name is active on this thread. Counts the call if it is.
    pub fn strikes(mutant: &'static str) -> bool {
        let is_planted = PLANTED.get() == Some(mutant);
        if is_planted {
            STRUCK.set(STRUCK.get().saturating_add(1));
        }
        is_planted
    }
}

/// A forged confirm: no broker sent it.
#[allow(clippy::disallowed_methods, reason = "some mutants forge a confirm")]
pub(crate) fn forged_confirm(row: &OutboxRow) -> Option<Confirmed> {
    match Outgoing::new(row.event_id.clone(), String::new(), Message::default()).confirmed() {
        PublishOutcome::Confirmed(confirmed) => Some(confirmed),
        PublishOutcome::Returned { .. } | PublishOutcome::Nacked { .. } | PublishOutcome::Unknown { .. } => {
            None
        }
    }
}
