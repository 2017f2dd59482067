//! Planted faults, by which the simulator is measured: what it does not find when it is there, it would not find.
//!
//! Each is one condition at the place that keeps a promise, and a mistake that a developer could make there. At most one
//! is planted at a time, per thread: a simulated run has a thread of its own. Without the feature `mutants` there is no
//! way to plant any, `planted` is `false` at compile time, and nothing of them is in the program.
//!
//! Adding one: a variant with its promise and what an observer sees when it is broken, and `planted` as the *last* part
//! of a condition, so that `struck` counts as little as possible that makes no difference. One that is planted nowhere
//! is a warning of the compiler.
#![cfg_attr(not(feature = "mutants"), expect(unreachable_pub, reason = "public with the feature alone"))]

use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use crate::ports::{Confirmed, Message, NewEvent, OutboxRow, Outgoing, PublishOutcome, StoreError};
use crate::{Transactor, with_tx};

/// Declares the mutants with their names.
macro_rules! mutants {
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
    };
}

mutants! {
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
    /// Each party is told of its own: buyer and seller are swapped.
    ///
    /// Seen: a notification on the buyer's side has another recipient than the buyer of its order.
    WrongPartyNotified => "wrong-party-notified",
    /// No handler acts on what an event says alone: the order's row is not compared.
    ///
    /// Seen: an effect of an event that the order's row contradicts.
    ContradictionApplied => "contradiction-applied",

    // Orders, products, payments.
    /// Only a pending order is closed by its deadline: a live one is, whatever its status.
    ///
    /// Seen: an ORDER_CANCELLED by timeout follows an ORDER_PAID of the same order; a paid order of which a client was
    /// told is cancelled.
    TimeoutSweepWithoutStatusCheck => "timeout-sweep-without-status-check",
    /// An overdue order is closed: it never is.
    ///
    /// Seen: stuck: an order is overdue and pending for ever.
    TimeoutNeverCloses => "timeout-never-closes",
    /// A cancelled order frees its product: it does not.
    ///
    /// Seen: a product is sold and no live order has it.
    ProductNotReleased => "product-not-released",
    /// State and events are one transaction: those of a new order are appended later, whatever became of it.
    ///
    /// Seen: an order without its ORDER_CREATED (lost in a crash), or an ORDER_CREATED without its order; a committed
    /// unit inserts an order and appends nothing.
    EventOutsideTransaction => "event-outside-transaction",
    /// Every transition announces itself: completion does not.
    ///
    /// Seen: an order has more versions than ordered events.
    EventForgotten => "event-forgotten",
    /// What was granted stays granted: after a commit of unknown outcome it is decided again.
    ///
    /// Seen: a client is refused a step that was committed in its own trace.
    RetryAfterUnknownDecidesAgain => "retry-after-unknown-decides-again",
    /// One command, one thing: after a commit of unknown outcome a product is listed under a new id.
    ///
    /// Seen: more products of a seller than it listed; a committed product that nobody was told of, beside the one of
    /// which the lister was told.
    RetryAfterUnknownWithANewId => "retry-after-unknown-with-a-new-id",
    /// What is told was committed: a commit of unknown outcome is taken for done.
    ///
    /// Seen: a client was told of an order, a status or a payment that is not there; a delivery is acked while the log
    /// knows nothing of its event.
    UnknownCommitIsSuccess => "unknown-commit-is-success",
    /// Who is slower looks again: a conditional write that changed no row counts as done.
    ///
    /// Seen: two live orders of one product; two events of one aggregate with one `aggregate_seq`; a client was told what
    /// is not there.
    VersionConflictIgnored => "version-conflict-ignored",
    /// A payment is settled once: the same report settles it again.
    ///
    /// Seen: two PAYMENT_SUCCEEDED of one payment; a payment in time has its refund due.
    PaymentSettledTwice => "payment-settled-twice",
    /// Money for an order that is past paying is given back: its refund is not recorded as due.
    ///
    /// Seen: a payment is SUCCESS, did not pay its order, and has no refund due.
    LatePaymentNotRecorded => "late-payment-not-recorded",
    /// Only the buyer pays: the seller may as well.
    ///
    /// Seen: a payment was started by another than the buyer of its order.
    SellerStartsPayment => "seller-starts-payment",
    /// Strangers find no order: they do.
    ///
    /// Seen: a user is shown an order that it neither bought nor sold.
    StrangerSeesOrder => "stranger-sees-order",

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

    // Money and goods.
    /// A release that comes before its lock leaves a tombstone: nothing is left, and the late lock holds for ever.
    ///
    /// Seen: an asset is held for an order that is over.
    ReleaseLeavesNoTombstone => "release-leaves-no-tombstone",
    /// A payment is accepted only when every asset is locked: it is not waited for.
    ///
    /// Seen: an order is paid while an asset that it names is not locked.
    PaymentBeforeLocks => "payment-before-locks",
    /// A lock that is refused for good cancels its order: the order stays pending.
    ///
    /// Seen: an order is pending, or paid, whose lock was refused.
    RefusedLockLeavesOrder => "refused-lock-leaves-order",
    /// Points are earned once per order, under the order's key: here under the event's.
    ///
    /// Seen: an order has earned twice, or the points of a user are more than were earned.
    EarnUnderAnotherKey => "earn-under-another-key",
    /// A refund takes back what the order earned.
    ///
    /// Seen: an order that was paid back has earned points.
    RefundLeavesEarnedPoints => "refund-leaves-earned-points",
    /// The reaper never releases the lock of an order that was paid.
    ///
    /// Seen: an order is paid whose hold is released.
    ReaperIgnoresPaid => "reaper-ignores-paid",
    /// An order that is being paid back is not shipped.
    ///
    /// Seen: an order is shipped while its refund is being processed, or was paid back.
    ShipWhileRefunding => "ship-while-refunding",
    /// Under one idempotency key another body is another request.
    ///
    /// Seen: a request is answered with what another one did.
    AnotherBodyIsARepeat => "another-body-is-a-repeat",
    /// Only whoever holds the claim of an idempotency key can commit under it.
    ///
    /// Seen: a request has two effects.
    AnswerWithoutItsToken => "answer-without-its-token",
    /// The answer of a request is kept in the transaction of what it did.
    ///
    /// Seen: a request has two effects.
    AnswerKeptAfterwards => "answer-kept-afterwards",
    /// No more goes back than came in money: what was paid with assets is paid out as well.
    ///
    /// Seen: more goes back than came.
    RefundWithoutCap => "refund-without-cap",
    /// Money that goes back is booked.
    ///
    /// Seen: the gateway's account is not what it paid and what it was paid.
    PayoutNotBooked => "payout-not-booked",
    /// A lost event that was consumed before is announced under the id by which its consumers know it.
    ///
    /// Seen: an effect is there twice.
    RepairWithNewId => "repair-with-new-id",
    /// What is held is taken from what is available.
    ///
    /// Seen: a balance is not what the entries of the ledger say.
    FreezeTakesNothing => "freeze-takes-nothing",
    /// A refund in processing is asked for until the gateway reports: here once.
    ///
    /// Seen: a refund is stuck.
    RefundAskedOnce => "refund-asked-once",
}

/// Whether this mutant is planted on this thread.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) const fn planted(_mutant: Mutant) -> bool {
    false
}

#[cfg(feature = "mutants")]
pub(crate) use switch::planted;
#[cfg(feature = "mutants")]
pub use switch::{UnknownMutant, plant, struck};

#[cfg(feature = "mutants")]
mod switch {
    use std::cell::Cell;
    use std::fmt;
    use std::str::FromStr;

    use super::Mutant;

    thread_local! {
        static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
        static STRUCK: Cell<u64> = const { Cell::new(0) };
    }

    /// Plants a mutant on this thread, or none; whatever was planted before is gone.
    pub fn plant(mutant: Option<Mutant>) {
        PLANTED.set(mutant);
        STRUCK.set(0);
    }

    /// How often the planted mutant's branch was taken. A run in which it never was says nothing about the oracle.
    pub fn struck() -> u64 {
        STRUCK.get()
    }

    /// Whether this mutant is planted on this thread.
    pub(crate) fn planted(mutant: Mutant) -> bool {
        let is_planted = PLANTED.get() == Some(mutant);
        if is_planted {
            STRUCK.set(STRUCK.get().saturating_add(1));
        }
        is_planted
    }

    /// There is no mutant of that name.
    #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
    #[error("there is no mutant {0:?}")]
    pub struct UnknownMutant(pub String);

    impl FromStr for Mutant {
        type Err = UnknownMutant;

        fn from_str(name: &str) -> Result<Mutant, UnknownMutant> {
            let found = Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name);
            found.ok_or_else(|| UnknownMutant(name.to_owned()))
        }
    }

    impl fmt::Display for Mutant {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.name())
        }
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

/// Appends events in a unit of their own, some time later.
pub(crate) fn append_later(tx: Transactor, events: Vec<NewEvent>) {
    let (tasks, events) = (tx.tasks.clone(), Arc::new(events));
    let append = async move {
        tx.clock.sleep(Duration::from_millis(20)).await;
        let appended: Result<(), StoreError> = with_tx(&tx, move |unit, _| {
            let events = Arc::clone(&events);
            Box::pin(async move { unit.outbox().append(&events).await })
        })
        .await;
        if let Err(error) = appended {
            debug!(%error, "events were not appended");
        }
    };
    drop(tasks.spawn(append));
}
