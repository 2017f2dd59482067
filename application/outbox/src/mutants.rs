//! Planted faults, by which a simulator is measured: what it does not find when it is there, it would not find.
//!
//! Each is one condition at the place that keeps a promise, and a mistake that a developer could make there. At most one
//! is planted at a time, by its name and per thread: a simulated run has a thread of its own. Without the feature `mutants`
//! there is no way to plant any, `planted` is `false` at compile time, and nothing of them is in the program.
//!
//! Adding one: a variant with its promise and what an observer sees when it is broken, and `planted` as the *last* part
//! of a condition, so that `struck` counts as little as possible that makes no difference. One that is planted nowhere
//! is a warning of the compiler.

use crate::ports::{Confirmed, Message, OutboxRow, Outgoing, PublishOutcome};

/// Declares the planted faults of a crate, which has a feature `mutants` that switches on that of this crate.
#[doc(hidden)]
#[macro_export]
macro_rules! planted_faults {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)+) => {
        /// A planted fault: which promise it breaks, and what an observer must see.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Mutant {
            $($(#[$doc])* $variant,)+
        }

        #[cfg(feature = "mutants")]
        impl Mutant {
            /// Every mutant.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$variant),+];

            /// Its name in lists and on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Mutant::$variant => $name,)+
                }
            }
        }

        /// Whether this mutant is planted on this thread.
        #[cfg(feature = "mutants")]
        pub(crate) fn planted(mutant: Mutant) -> bool {
            $crate::mutants::strikes(mutant.name())
        }

        /// Whether this mutant is planted on this thread.
        #[cfg(not(feature = "mutants"))]
        #[inline(always)]
        pub(crate) const fn planted(_mutant: Mutant) -> bool {
            false
        }
    };
}

planted_faults! {
    // The relay.
    /// SENT means confirmed: every published row is taken for confirmed, whatever the broker answers.
    ///
    /// Seen: an event is SENT although no broker ever confirmed it.
    MarkSentBeforeConfirm => "mark-sent-before-confirm",
    /// SENT means routed to a queue: a returned message counts as confirmed.
    ///
    /// Seen: an event is SENT although the broker returned every publish of it.
    IgnoreReturns => "ignore-returns",
    /// SENT means answered for: a publish of unknown outcome counts as confirmed.
    ///
    /// Seen: an event is SENT although no broker ever confirmed it.
    UnknownIsConfirmed => "unknown-is-confirmed",
    /// A partition is settled only by its owner: the answer of the fence is ignored.
    ///
    /// Seen: a committed unit moves rows of a partition for which its own fence did not name that partition.
    NoFence => "no-fence",
    /// Who publishes a partition holds its lease: holds are kept in memory and never renewed.
    ///
    /// Seen: a row is published by a relay that has no valid lease of its partition; a partition changes its owner
    /// although the old one beats on and never gave it back.
    LeaseNotRenewed => "lease-not-renewed",
    /// `on-failed = hold`: the relay passes over failed events under it as well.
    ///
    /// Seen: under `Hold` an event is published while an earlier ordered one of its aggregate is FAILED and not
    /// released.
    RelayIgnoresHeld => "relay-ignores-held",
    /// Publishes are bounded: failures are not added up.
    ///
    /// Seen: more charged publishes of an event than its `max_retry_count` and one, and it is not FAILED.
    PublishRetriesUnbounded => "publish-retries-unbounded",
    /// A failed publish is backed off: the next one is due at once.
    ///
    /// Seen: two charged publishes of an event lie closer together than the delay of the retry policy.
    PublishBackoffIgnored => "publish-backoff-ignored",
    /// Events of an aggregate are published in order: a window goes on past one that failed in it.
    ///
    /// Seen: the broker confirms an event while an earlier ordered one of its aggregate is pending and was never
    /// confirmed.
    PublishOvertakesFailed => "publish-overtakes-failed",
    /// An outage of the broker is no event's failure (`outage = wait`): it is charged all the same.
    ///
    /// Seen: `retry_count` exceeds the number of publishes that the broker returned or nacked; events are FAILED after
    /// an outage alone.
    OutageSpendsAttempts => "outage-spends-attempts",
    /// A row that can never be sent is FAILED at its first attempt: it is retried like any other.
    ///
    /// Seen: a row without a readable payload becomes RETRY.
    UnsendableRetried => "unsendable-retried",

    // The consumers.
    /// Attempts are bounded: each failure is written down as the first.
    ///
    /// Seen: more failed attempts at an event than the policy allows, and it is not DEAD; no rest after the faults end.
    AttemptsNotCounted => "attempts-not-counted",
    /// A failed attempt is backed off: the next one is due at once.
    ///
    /// Seen: two failed attempts at an event lie closer together than the delay of the retry policy.
    ConsumerBackoffIgnored => "consumer-backoff-ignored",
    /// Effect and log row are one transaction: the handler's effects are committed before, in a unit of their own.
    ///
    /// Seen: effects of an event are there twice; a unit commits effects without the log row of their event.
    DedupeOutsideTransaction => "dedupe-outside-transaction",
    /// An event is applied once: a duplicate on the careful way is applied again.
    ///
    /// Seen: effects of an event are there twice; a SUCCESS in the log is written over.
    NoDedupe => "no-dedupe",
    /// The commit comes before the ack: deliveries are acked when they come.
    ///
    /// Seen: a delivery is acked while the log of its consumer knows nothing of its event; after a crash the event comes
    /// back only by the sweep.
    AckBeforeCommit => "ack-before-commit",
    /// A failed attempt is written down and tried again: it is acked, and nothing is written.
    ///
    /// Seen: a delivery is acked while the log of its consumer knows nothing of its event, or has it as PROCESSING.
    AckWhatFailed => "ack-what-failed",
    /// Effects of an aggregate are in order: each event is applied as it comes, on both ways.
    ///
    /// Seen: effects of an order out of the order of `aggregate_seq`; an event becomes SUCCESS while an earlier ordered
    /// one that is not FAILED in the outbox is unsettled.
    NoGate => "no-gate",
    /// A dead event has a letter: it becomes DEAD without one.
    ///
    /// Seen: a committed unit makes an event DEAD and parks nothing; at rest there is no letter for an event that died in
    /// the sweep. (One that died with its delivery in hand is parked later by the drainer.)
    DeadWithoutLetter => "dead-without-letter",
    /// What is no event of ours is shown to a person: it is acked.
    ///
    /// Seen: a stray message is in no queue and in no dead letter.
    StrayMessageDropped => "stray-message-dropped",
    /// A dead letter is parked before it is acked: the drainer acks it only.
    ///
    /// Seen: a stray or broker-dead-lettered message is in no queue and in no dead letter.
    DrainerForgets => "drainer-forgets",
    /// What the broker loses after its confirm is applied from the outbox: nobody looks for it.
    ///
    /// Seen: stuck: a SENT event is missing from a consumer's log for ever.
    NoSweepForLost => "no-sweep-for-lost",
    /// What a crash leaves unsettled is taken up: leftovers are not.
    ///
    /// Seen: stuck: an event stays WAITING, FAILED or PROCESSING past its lease for ever.
    LeftoversForgotten => "leftovers-forgotten",

    // Transactions.
    /// What is told was committed: a commit of unknown outcome is taken for done.
    ///
    /// Seen: a client was told of something that is not there; a delivery is acked while the log
    /// knows nothing of its event.
    UnknownCommitIsSuccess => "unknown-commit-is-success",

    // Operators.
    /// Operators see their own tenant: they see every one.
    ///
    /// Seen: an operator without the role `platform` is shown rows of another tenant, or moves them.
    TenantIgnored => "tenant-ignored",
    /// A redrive moves each event once: after a commit of unknown outcome it moves again.
    ///
    /// Seen: an answer that counts fewer than its audit entry; two audit entries of one call; an event redriven twice by
    /// one call.
    RedriveTwice => "redrive-twice",
    /// Who moved what is in the audit log: a redrive is not.
    ///
    /// Seen: a committed unit moves SENT or FAILED rows to RETRY and writes no audit entry.
    AuditForgotten => "audit-forgotten",
    /// A letter is REPLAYED after the confirm: it is closed before the publish.
    ///
    /// Seen: a letter is REPLAYED while its event is unsettled and no broker confirmed the replay; the client is told that
    /// it was not replayed.
    ReplayClosesLetterFirst => "replay-closes-letter-first",
    /// A replayed event is to be tried: the log keeps it DEAD.
    ///
    /// Seen: a letter is REPLAYED and its event is DEAD in the log, without effect.
    ReplayLeavesLogDead => "replay-leaves-log-dead",
    /// A discarded event has no effect later: the log keeps it to be tried.
    ///
    /// Seen: a letter is DISCARDED and its event is not DEAD in the log, or has its effect.
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

    /// Plants the mutant of this name on this thread, or none; whatever was planted before is gone.
    pub fn plant(mutant: Option<&'static str>) {
        PLANTED.set(mutant);
        STRUCK.set(0);
    }

    /// How often the planted mutant's branch was taken. A run in which it never was says nothing about the oracle.
    pub fn struck() -> u64 {
        STRUCK.get()
    }

    /// Whether the mutant of this name is planted on this thread; counts it if it is.
    pub fn strikes(mutant: &'static str) -> bool {
        let is_planted = PLANTED.get() == Some(mutant);
        if is_planted {
            STRUCK.set(STRUCK.get().saturating_add(1));
        }
        is_planted
    }
}

/// A confirm that no broker gave.
#[allow(clippy::disallowed_methods, reason = "the lie that some mutants tell")]
pub(crate) fn claimed(row: &OutboxRow) -> Option<Confirmed> {
    match Outgoing::new(row.event_id.clone(), String::new(), Message::default()).confirmed() {
        PublishOutcome::Confirmed(confirmed) => Some(confirmed),
        PublishOutcome::Returned { .. } | PublishOutcome::Nacked { .. } | PublishOutcome::Unknown { .. } => {
            None
        }
    }
}
