//! Planted faults of the marketplace, by which the simulator is measured; how they work is said in
//! `handover_outbox::mutants`, whose own they stand beside.

use std::sync::Arc;
use std::time::Duration;

use handover_outbox::ports::{NewEvent, StoreError};
use handover_outbox::{Transactor, with_tx};
use tracing::debug;

#[cfg(feature = "mutants")]
pub use handover_outbox::mutants::{plant, struck};

handover_outbox::planted_faults! {
    // The consumers.
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

/// The names of every mutant, the outbox's among them.
#[cfg(feature = "mutants")]
pub fn names() -> Vec<&'static str> {
    let of_outbox = handover_outbox::mutants::Mutant::ALL.iter().map(|mutant| mutant.name());
    of_outbox.chain(Mutant::ALL.iter().map(|mutant| mutant.name())).collect()
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
