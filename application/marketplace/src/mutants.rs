//! Planted faults of the marketplace. They test whether the simulator detects defects; see `handover_outbox::mutants` for
//! the mechanism and the faults of the outbox.

use std::sync::Arc;
use std::time::Duration;

use handover_outbox::ports::{NewEvent, StoreError};
use handover_outbox::{Transactor, with_tx};
use tracing::debug;

#[cfg(feature = "mutants")]
pub use handover_outbox::mutants::{plant, struck};

handover_outbox::planted_faults! {
    // Consumers.
    /// Each party receives its own notifications. Fault: buyer and seller are swapped.
    ///
    /// Observable as: a notification on the buyer side has a recipient other than the buyer of its order.
    WrongPartyNotified => "wrong-party-notified",
    /// A handler applies an event only if the order row confirms it. Fault: the row is not compared.
    ///
    /// Observable as: an effect of an event that contradicts the order row.
    ContradictionApplied => "contradiction-applied",

    // Orders, products, payments.
    /// A deadline closes only pending orders. Fault: it also closes paid and shipped orders.
    ///
    /// Observable as: an ORDER_CANCELLED with reason timeout after an ORDER_PAID of the same order; a cancelled order
    /// that a client saw as paid.
    TimeoutSweepWithoutStatusCheck => "timeout-sweep-without-status-check",
    /// Overdue orders are closed. Fault: they are not.
    ///
    /// Observable as: an order that stays pending after its deadline.
    TimeoutNeverCloses => "timeout-never-closes",
    /// A cancelled order releases its product. Fault: it does not.
    ///
    /// Observable as: a product is sold, but no live order has it.
    ProductNotReleased => "product-not-released",
    /// State and events are written in one transaction. Fault: the events of a new order are appended later in another
    /// one.
    ///
    /// Observable as: an order without its ORDER_CREATED after a crash, or an ORDER_CREATED without its order; a
    /// committed unit of work inserts an order and appends no event.
    EventOutsideTransaction => "event-outside-transaction",
    /// Every transition appends an event. Fault: completion does not.
    ///
    /// Observable as: an order has more versions than ordered events.
    EventForgotten => "event-forgotten",
    /// A committed decision is final. Fault: after a commit of unknown outcome the command is decided again.
    ///
    /// Observable as: a client receives a refusal for a step that its own request committed.
    RetryAfterUnknownDecidesAgain => "retry-after-unknown-decides-again",
    /// One command creates one product. Fault: after a commit of unknown outcome it creates another with a new id.
    ///
    /// Observable as: a seller has more products than it listed; a committed product that no response contains.
    RetryAfterUnknownWithANewId => "retry-after-unknown-with-a-new-id",
    /// A conditional write that changes no row is a conflict. Fault: it counts as done.
    ///
    /// Observable as: two live orders of one product; two events of one aggregate with the same `aggregate_seq`; a
    /// response that does not match the rows.
    VersionConflictIgnored => "version-conflict-ignored",
    /// A payment is settled once. Fault: the same report settles it again.
    ///
    /// Observable as: two PAYMENT_SUCCEEDED of one payment; a refund is due for a payment that was in time.
    PaymentSettledTwice => "payment-settled-twice",
    /// A payment for an order that can no longer be paid is refunded. Fault: its refund is not recorded as due.
    ///
    /// Observable as: a payment is SUCCESS, did not pay its order, and has no refund due.
    LatePaymentNotRecorded => "late-payment-not-recorded",
    /// Only the buyer can pay. Fault: the seller can, too.
    ///
    /// Observable as: a payment was started by a user other than the buyer of its order.
    SellerStartsPayment => "seller-starts-payment",
    /// Only the parties of an order can read it. Fault: every user of the tenant can.
    ///
    /// Observable as: a user receives an order that it neither bought nor sold.
    StrangerSeesOrder => "stranger-sees-order",

    // Assets and money.
    /// A release before its lock leaves a tombstone. Fault: it leaves none, and the late lock is never released.
    ///
    /// Observable as: an asset is held for an order that has ended.
    ReleaseLeavesNoTombstone => "release-leaves-no-tombstone",
    /// A payment is accepted only if every asset of the order is locked. Fault: the locks are not checked.
    ///
    /// Observable as: an order is paid while one of its assets is not locked.
    PaymentBeforeLocks => "payment-before-locks",
    /// A permanently refused lock cancels the order. Fault: the order stays pending.
    ///
    /// Observable as: an order with a refused lock is pending or paid.
    RefusedLockLeavesOrder => "refused-lock-leaves-order",
    /// Points are earned once per order, with a key of the order. Fault: the key contains the event id.
    ///
    /// Observable as: an order earned points twice; a user has more points than were earned.
    EarnUnderAnotherKey => "earn-under-another-key",
    /// A refund deducts the points that the order earned. Fault: it does not.
    ///
    /// Observable as: a refunded order still has earned points.
    RefundLeavesEarnedPoints => "refund-leaves-earned-points",
    /// The reaper never releases the lock of a paid order. Fault: it does.
    ///
    /// Observable as: a paid order whose hold is released.
    ReaperIgnoresPaid => "reaper-ignores-paid",
    /// An order is not shipped during or after its refund. Fault: it can be.
    ///
    /// Observable as: an order is shipped although its refund is in processing or done.
    ShipWhileRefunding => "ship-while-refunding",
    /// An idempotency key cannot be used with another body. Fault: the body is not compared.
    ///
    /// Observable as: a request receives the response of another request.
    AnotherBodyIsARepeat => "another-body-is-a-repeat",
    /// Only the current claim of an idempotency key can commit. Fault: the token is not compared.
    ///
    /// Observable as: a request has two effects.
    AnswerWithoutItsToken => "answer-without-its-token",
    /// A response is stored in the transaction of its command. Fault: it is stored afterwards.
    ///
    /// Observable as: a request has two effects.
    AnswerKeptAfterwards => "answer-kept-afterwards",
    /// A refund pays back at most the captured amount. Fault: it also pays out the part that was paid with assets.
    ///
    /// Observable as: more money was refunded than captured.
    RefundWithoutCap => "refund-without-cap",
    /// Each refunded amount is in the ledger. Fault: it is not.
    ///
    /// Observable as: the gateway account differs from captures minus payouts.
    PayoutNotBooked => "payout-not-booked",
    /// A lost event that was consumed is appended with its old id. Fault: it gets a new id.
    ///
    /// Observable as: an effect exists twice.
    RepairWithNewId => "repair-with-new-id",
    /// A held amount is deducted from the available balance. Fault: it is not.
    ///
    /// Observable as: a balance differs from the ledger entries.
    FreezeTakesNothing => "freeze-takes-nothing",
    /// A refund in processing is requested until the gateway reports. Fault: it is requested once.
    ///
    /// Observable as: a refund stays in processing.
    RefundAskedOnce => "refund-asked-once",
}

/// The names of all mutants, including those of the outbox.
#[cfg(feature = "mutants")]
pub fn names() -> Vec<&'static str> {
    let of_outbox = handover_outbox::mutants::Mutant::ALL.iter().map(|mutant| mutant.name());
    of_outbox.chain(Mutant::ALL.iter().map(|mutant| mutant.name())).collect()
}

/// Appends events later, in a separate unit of work.
pub(crate) fn append_later(tx: Transactor, events: Vec<NewEvent>) {
    let tasks = tx.tasks.clone();
    let events = Arc::new(events);
    let append = async move {
        tx.clock.sleep(Duration::from_millis(20)).await;
        let appended: Result<(), StoreError> = with_tx(&tx, move |unit, _| {
            let events = Arc::clone(&events);
            Box::pin(async move { unit.outbox().append(&events).await })
        })
        .await;
        if let Err(error) = appended {
            debug!(%error, "mutant event-outside-transaction: events not appended");
        }
    };
    drop(tasks.spawn(append));
}
