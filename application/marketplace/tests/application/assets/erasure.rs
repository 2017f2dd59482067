//! Erasure of a user: afterwards no row contains a text that the user wrote or that describes the user.

use chrono::TimeDelta;
use handover_events::{EventId, OutboxStatus};
use handover_outbox::MASK;
use handover_outbox::operations::{
    Named, OperationError, Reason, RedriveEvents, RedriveRate, RedriveSelection, redrive_events,
};
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace::use_cases::operations::ErasedUser;
use marketplace::use_cases::*;
use marketplace::{Actor, CommandContext};
use marketplace_domain::*;

use super::market::{Market, OPERATOR, SpentAssets, buyer, operator, tenant};
use super::reconciliation::run_reconciliation;
use crate::support::{BUYER, CommitFault, Process, SELLER, TENANT, by, event_id, pass, secs};

/// Begin of every text that must be masked. The title of the seller's products is [`TITLE`].
const PLANTED: &str = "PLANTED";
/// Title of the products of the seller.
const TITLE: &str = "a camera";

fn platform() -> CommandContext {
    CommandContext { actor: Actor::CommandLine("root".into()), ..by(OPERATOR) }
}

fn reason(text: &str) -> Reason {
    Reason::new(text.to_owned()).unwrap()
}

async fn erase(process: &Process, user: i64) -> Result<ErasedUser, UseCaseError<OperationError>> {
    let (app, user) = (&process.app, user.try_into().unwrap());
    app.operations.erase_user(&app.outbox, &platform(), user, reason("ticket 4711")).await
}

impl Market {
    async fn erase(&self, user: i64) -> Result<ErasedUser, UseCaseError<OperationError>> {
        erase(&self.process, user).await
    }

    /// The rows that contain this text.
    fn rows_with(&self, text: &str) -> Vec<String> {
        self.world.store.rows().into_iter().filter(|row| row.contains(text)).collect()
    }

    /// Waits for the payment deadlines of the orders: until then, an event of each is not settled.
    async fn pass_deadlines(&self) {
        pass(secs(901)).await;
    }

    async fn events_of(&self, order: OrderId) -> Vec<OutboxRow> {
        let rows = self.world.rows().await.into_iter();
        rows.filter(|row| row.aggregate.kind == "Order" && row.aggregate.id == order.get()).collect()
    }

    /// A refunded and a completed order, with texts in every table. Returns them.
    async fn with_texts() -> (Market, [Order; 2]) {
        let market = Market::running().await;
        let refunded = market.paid(SpentAssets::default()).await;
        let command =
            RequestRefund { order: refunded.id, reason: format!("{PLANTED} refund"), off_shelf: false };
        let refund = market.app().payments.request_refund(&by(BUYER), command).await.unwrap();
        market.report(&refund, RefundResult::Success).await.unwrap();
        let shipped = market.paid(SpentAssets::default()).await;
        let shipment = Shipment::new(format!("{PLANTED} carrier"), format!("{PLANTED} tracking")).unwrap();
        market.app().ordering.ship(&by(SELLER), shipped.id, shipment).await.unwrap();
        market.process_pending().await;
        market.app().ordering.complete(&by(BUYER), shipped.id).await.unwrap();
        market.process_pending().await;
        market.plant_around(refunded.id, shipped.id).await;
        market.process_pending().await;
        let mut orders = Vec::new();
        for order in [refunded, shipped] {
            orders.push(market.world.order(order.id).await);
        }
        (market, orders.try_into().unwrap())
    }

    /// Texts about the orders that the market itself does not write: an operator's reasons, a discarded dead letter, stored
    /// responses, and an event of an earlier version with a free payment method.
    async fn plant_around(&self, refunded: OrderId, shipped: OrderId) {
        let event = self.events_of(refunded).await.remove(0).event_id;
        let selection = RedriveSelection::Events(Named::new(vec![event]).unwrap());
        let command = RedriveEvents {
            rows: selection,
            pace: RedriveRate::new(100).unwrap(),
            reason: Some(reason("PLANTED redrive")),
            dry_run: false,
        };
        redrive_events(&self.app().outbox, &operator().operator().unwrap(), command).await.unwrap();
        let rows = self.world.rows().await;
        let paid = rows.iter().find(|row| row.event_type == "PAYMENT_SUCCEEDED").unwrap();
        let payload = paid.payload.replace("\"card\"", "\"PLANTED 4111 1111\"");
        assert_ne!(payload, paid.payload);
        let old = NewEvent {
            event_id: event_id("old"),
            event_type: paid.event_type.clone(),
            aggregate: paid.aggregate.clone(),
            aggregate_seq: Some(paid.aggregate_seq),
            payload,
            metadata: EventMetadata::default(),
            occurred_at: paid.create_time,
            max_retry_count: 3,
            routing_key: paid.routing_key.clone(),
            idle_consumers: paid.idle_consumers.clone(),
            due: None,
        };
        self.process.commit(vec![old]).await;
        let completed = self.events_of(shipped).await.pop().unwrap().event_id;
        let dead_letter = DeadLetter {
            queue: "inventory.update.queue".into(),
            key: completed.to_string(),
            tenant: tenant(),
            event_type: None,
            trace_id: None,
            body: format!("{{\"payload\":{{\"orderId\":{shipped},\"name\":\"PLANTED name\"}}}}"),
            reason: "PLANTED error".into(),
            died_at: self.world.now(),
            status: DeadLetterStatus::Open,
            decided_at: None,
            note: None,
        };
        let discard = Decision {
            queue: dead_letter.queue.clone(),
            key: dead_letter.key.clone(),
            from: vec![DeadLetterStatus::Open],
            to: DeadLetterStatus::Discarded,
            note: Some("PLANTED note".into()),
            at: self.world.now(),
        };
        let mut unit = self.world.store.begin().await.unwrap();
        unit.outbox().park(&[dead_letter]).await.unwrap();
        assert_eq!(unit.outbox().decide(&discard).await.unwrap(), Changed::One);
        let about_order = format!("{{\"data\":{{\"orderId\":{refunded},\"reason\":\"PLANTED response\"}}}}");
        for (user, key, text) in [
            (BUYER, "own", "{\"title\":\"PLANTED own\",\"price\":88.50}"),
            (OPERATOR, "order", about_order.as_str()),
            (OPERATOR, "other", "{\"orderId\":999999,\"reason\":\"unrelated\"}"),
        ] {
            let scope = RequestScope {
                tenant: TENANT,
                user: user.try_into().unwrap(),
                route: "POST /x".into(),
                key: key.into(),
            };
            let response = StoredResponse { code: 201, text: text.into() };
            let record = RequestRecord {
                scope,
                body_hash: String::new(),
                token: key.into(),
                state: RequestState::Success(response),
                trace_id: "t".into(),
                create_time: self.world.now(),
                expire_time: self.world.now() + TimeDelta::days(1),
            };
            unit.claim_request(&record).await.unwrap();
        }
        unit.commit().await.unwrap();
    }
}

/// What an erasure must not change.
async fn kept(market: &Market, orders: &[Order]) -> String {
    let mut view = market.world.view().await;
    let ids: Vec<OrderId> = orders.iter().map(|order| order.id).collect();
    let payments = view.payments_of(TENANT, &ids).await.unwrap();
    let refunds = view.refunds_of(TENANT, &ids).await.unwrap();
    let refunds: Vec<Refund> =
        refunds.into_iter().map(|refund| Refund { reason: String::new(), ..refund }).collect();
    let rows: Vec<(EventId, OutboxStatus)> =
        market.world.rows().await.into_iter().map(|row| (row.event_id, row.status)).collect();
    let found = run_reconciliation(market, false).await;
    market.assert_ledger_balanced().await;
    format!("{payments:?} {refunds:?} {rows:?} {:?} {}", found.findings, found.events)
}

#[tokio::test(start_paused = true)]
async fn no_row_contains_a_text_about_an_erased_user() {
    let (market, orders) = Market::with_texts().await;
    assert!(market.rows_with(PLANTED).len() >= 8, "{:#?}", market.rows_with(PLANTED));
    market.pass_deadlines().await;
    market.locked(SpentAssets::default()).await;
    let before = kept(&market, &orders).await;
    let erased = market.erase(BUYER).await.unwrap();
    assert_eq!(market.rows_with(PLANTED), Vec::<String>::new());
    assert_eq!(erased.unfinished_orders, 1, "the pending order: {erased:?}");
    assert_eq!((erased.unsettled_events(), erased.is_complete()), (0, false), "{erased:?}");
    assert_eq!((erased.products, erased.responses, erased.audit_entries), (0, 2, 1), "{erased:?}");
    assert!(!market.rows_with(TITLE).is_empty(), "the titles are of the seller");
    assert!(!market.rows_with("unrelated").is_empty(), "a response about another order stays");
    assert_eq!(kept(&market, &orders).await, before);
    let old = market.world.row("old").await;
    assert!(old.payload.contains("\"paymentMethod\":\"other\""), "{}", old.payload);
    assert_eq!(old.erased_time, Some(market.world.now()));
    for (caller, why) in [(operator(), Some("ticket 4711")), (by(BUYER), None)] {
        let timeline = market.app().operations.timeline(&caller, None, orders[0].id).await.unwrap();
        let masked = timeline.items.iter().find(|item| item.what.starts_with("texts masked")).unwrap();
        assert_eq!((masked.at, masked.detail.as_deref()), (market.world.now(), why));
    }
    let entries = market.rows_with("users.erase");
    assert!(
        entries.iter().all(|entry| entry.contains("ticket 4711") && entry.contains("userId")),
        "{entries:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn titles_of_an_erased_seller_are_masked_and_a_second_erasure_changes_nothing() {
    let (market, _) = Market::with_texts().await;
    let erased = market.erase(SELLER).await.unwrap();
    assert_eq!(erased.products, 2);
    assert_eq!((market.rows_with(TITLE), market.rows_with(PLANTED)), (vec![], vec![market.own_response()]));
    let rows = || {
        let mut rows = market.world.store.rows();
        rows.retain(|row| !row.starts_with("audit_log"));
        rows
    };
    let before = rows();
    let again = market.erase(SELLER).await.unwrap();
    assert_eq!((again.rows(), rows()), (0, before));
}

impl Market {
    /// The response to a request of the buyer, which names no order.
    fn own_response(&self) -> String {
        self.rows_with("PLANTED own").remove(0)
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_settled_is_left_to_a_later_erasure() {
    let (market, [refunded, ..]) = Market::with_texts().await;
    market.pass_deadlines().await;
    let event = market.events_of(refunded.id).await.remove(0).event_id;
    let open = DeadLetter {
        queue: "inventory.update.queue".into(),
        key: event.to_string(),
        tenant: tenant(),
        event_type: None,
        trace_id: None,
        body: "PLANTED body".into(),
        reason: "PLANTED open".into(),
        died_at: market.world.now(),
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    };
    let mut unit = market.world.store.begin().await.unwrap();
    unit.outbox().park(std::slice::from_ref(&open)).await.unwrap();
    unit.commit().await.unwrap();
    let erased = market.erase(BUYER).await.unwrap();
    assert_eq!(erased.unsettled_events(), 1, "{erased:?}");
    assert!(!market.rows_with("PLANTED open").is_empty(), "an operator must still be able to decide");
    let discard = Decision {
        queue: open.queue,
        key: open.key,
        from: vec![DeadLetterStatus::Open],
        to: DeadLetterStatus::Discarded,
        note: None,
        at: market.world.now(),
    };
    let mut unit = market.world.store.begin().await.unwrap();
    assert_eq!(unit.outbox().decide(&discard).await.unwrap(), Changed::One);
    unit.commit().await.unwrap();
    let erased = market.erase(BUYER).await.unwrap();
    assert_eq!((erased.unsettled_events(), market.rows_with(PLANTED)), (0, vec![]), "{erased:?}");
}

/// Every commit of an erasure fails once, in each way; the next call completes it.
#[tokio::test(start_paused = true)]
async fn an_erasure_interrupted_at_any_commit_is_completed_by_the_next_one() {
    for fault in [CommitFault::Unavailable, CommitFault::Lost, CommitFault::ReplyLost, CommitFault::Transient]
    {
        for commit in 0.. {
            let (market, _) = Market::with_texts().await;
            let process = market.world.process();
            process.faults.next_commits(std::iter::repeat_n(CommitFault::None, commit).chain([fault]));
            let interrupted = erase(&process, BUYER).await;
            let units = process.faults.begun_units();
            let rows = market.erase(BUYER).await.unwrap().rows();
            assert_eq!(market.rows_with(PLANTED), Vec::<String>::new(), "{fault:?} {commit}");
            if interrupted.is_ok() {
                assert_eq!(rows, 0, "{fault:?} {commit}");
            }
            if units <= commit as u64 {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_an_operator_of_all_tenants_erases_users() {
    let (market, _) = Market::with_texts().await;
    let app = market.app();
    for context in [by(BUYER), operator()] {
        let refused = app.operations.erase_user(&app.outbox, &context, buyer(), reason("no")).await;
        assert!(
            matches!(
                refused,
                Err(UseCaseError::NotAllowed(_) | UseCaseError::Refused(OperationError::ForAllTenants))
            ),
            "{refused:?}"
        );
    }
    assert_eq!(market.rows_with(MASK), Vec::<String>::new());
}
