//! Compares orders and their refunds with a model, for any sequence of requests, reports and shipments.

use chrono::{DateTime, TimeDelta, Utc};
use marketplace_domain::{
    EventBody, Order, OrderAction, OrderActor, OrderRefusal, OrderStatus, Refund, RefundCause, RefundId,
    RefundRefusal, RefundResult,
};
use proptest::prelude::*;

use crate::common::{id, model_cases, money, order, payment, placed_at, shipment};

#[derive(Debug, Clone, Copy)]
enum Step {
    /// A refund is requested.
    Begin(OrderActor),
    /// The gateway reports the result of an existing refund; the refund and its order are settled together.
    Report(usize, RefundResult),
    /// The order receives the result of an unknown refund.
    UnknownRefund(i64, RefundResult),
    /// Another request for an existing refund is sent to the gateway.
    Request(usize),
    Ship,
    Complete,
}

fn steps() -> impl Strategy<Value = Step> {
    let result = prop_oneof![Just(RefundResult::Failed), Just(RefundResult::Success)].boxed();
    let actor = prop::sample::select(OrderActor::ALL);
    prop_oneof![
        4 => prop_oneof![Just(OrderActor::Buyer), Just(OrderActor::Operator), actor].prop_map(Step::Begin),
        4 => (0..5usize, result.clone()).prop_map(|(at, result)| Step::Report(at, result)),
        1 => (100..105i64, result).prop_map(|(refund, result)| Step::UnknownRefund(refund, result)),
        2 => (0..5usize).prop_map(Step::Request),
        1 => Just(Step::Ship),
        1 => Just(Step::Complete),
    ]
}

/// A refund as plain values.
#[derive(Clone)]
struct ModelRefund {
    ended: Option<RefundResult>,
    attempts: u32,
    version: i64,
}

/// A paid order and its refunds as plain values.
struct Model {
    status: &'static str,
    running: Option<usize>,
    version: i64,
    refunds: Vec<ModelRefund>,
}

impl Model {
    /// Returns the announced events, or the reason of a rejection.
    fn step(&mut self, step: Step) -> Result<Vec<&'static str>, &'static str> {
        let events = match step {
            Step::Begin(OrderActor::Buyer | OrderActor::Operator) => {
                self.check_paid_without_refund()?;
                self.running = Some(self.refunds.len());
                self.refunds.push(ModelRefund { ended: None, attempts: 0, version: 1 });
                vec![]
            }
            Step::Begin(_) => return Err("not allowed"),
            Step::Report(at, result) => {
                let Some(refund) = self.refunds.get_mut(at) else { return Ok(vec![]) };
                match refund.ended {
                    Some(ended) if ended == result => return Ok(vec![]),
                    Some(_) => return Err("settled already"),
                    None => {}
                }
                refund.ended = Some(result);
                refund.version += 1;
                self.running = None;
                match result {
                    RefundResult::Failed => vec!["REFUND_FAILED"],
                    RefundResult::Success => {
                        self.status = "refunded";
                        vec!["REFUND_SUCCEEDED", "ORDER_REFUNDED"]
                    }
                }
            }
            Step::UnknownRefund(..) => return Err("wrong status"),
            Step::Request(at) => {
                if let Some(refund) = self.refunds.get_mut(at) {
                    refund.attempts += 1;
                    refund.version += 1;
                }
                return Ok(vec![]);
            }
            Step::Ship => {
                self.check_paid_without_refund()?;
                self.status = "shipped";
                vec!["ORDER_STATUS_CHANGED"]
            }
            Step::Complete if self.status == "shipped" => {
                self.status = "completed";
                vec!["ORDER_STATUS_CHANGED"]
            }
            Step::Complete => return Err("wrong status"),
        };
        self.version += 1;
        Ok(events)
    }

    fn check_paid_without_refund(&self) -> Result<(), &'static str> {
        match (self.status, self.running) {
            ("paid", None) => Ok(()),
            ("paid", Some(_)) => Err("refunding"),
            _ => Err("wrong status"),
        }
    }
}

fn ending(refund: RefundId, result: RefundResult) -> OrderAction {
    match result {
        RefundResult::Success => OrderAction::Refund { refund, amount: money("80.25") },
        RefundResult::Failed => OrderAction::AbandonRefund { refund },
    }
}

/// The order and its refunds as computed by the domain.
struct Actual {
    order: Order,
    refunds: Vec<Refund>,
}

impl Actual {
    fn act(
        &mut self,
        action: &OrderAction,
        actor: OrderActor,
        now: DateTime<Utc>,
    ) -> Result<Vec<EventBody>, String> {
        let (after, events) =
            self.order.apply(action, actor, now).map_err(|refusal| label(&refusal).to_owned())?;
        self.order = after;
        Ok(events)
    }

    fn step(&mut self, step: Step, now: DateTime<Utc>) -> Result<Vec<EventBody>, String> {
        match step {
            Step::Begin(actor) => {
                let refund = id(i64::try_from(self.refunds.len()).unwrap() + 1);
                let events = self.act(&OrderAction::BeginRefund { refund }, actor, now)?;
                self.refunds.push(Refund::of(&payment(), refund, RefundCause::Buyer, "why".into(), now));
                Ok(events)
            }
            Step::Report(at, result) => {
                let Some(refund) = self.refunds.get(at) else { return Ok(vec![]) };
                let settled = refund.settle(result, &self.order, now).map_err(|refusal| match refusal {
                    RefundRefusal::AlreadySettled { .. } => "settled already".to_owned(),
                    other @ RefundRefusal::NothingToRefund => other.to_string(),
                })?;
                let Some((after, event)) = settled else { return Ok(vec![]) };
                let events = self.act(&ending(after.id, result), OrderActor::Gateway, now)?;
                self.refunds[at] = after;
                Ok([vec![event], events].concat())
            }
            Step::UnknownRefund(refund, result) => {
                self.act(&ending(id(refund), result), OrderActor::Gateway, now)
            }
            Step::Request(at) => {
                if let Some(refund) = self.refunds.get_mut(at) {
                    *refund = refund.with_attempt(now + TimeDelta::minutes(1), now);
                }
                Ok(vec![])
            }
            Step::Ship => self.act(&OrderAction::Ship(shipment()), OrderActor::Seller, now),
            Step::Complete => self.act(&OrderAction::Complete, OrderActor::Buyer, now),
        }
    }

    fn assert_agreement(&self, model: &Model) {
        let order = &self.order;
        assert_eq!((order.status.as_str(), order.version), (model.status, model.version));
        let paid_back = model.refunds.iter().position(|refund| refund.ended == Some(RefundResult::Success));
        assert_eq!(order.refund, model.running.or(paid_back).map(|at| self.refunds[at].id));
        for (refund, expected) in self.refunds.iter().zip(&model.refunds) {
            let status = match expected.ended {
                None => "PROCESSING",
                Some(RefundResult::Success) => "SUCCESS",
                Some(RefundResult::Failed) => "FAILED",
            };
            assert_eq!(
                (refund.status.as_str(), refund.attempts, refund.version),
                (status, expected.attempts, expected.version)
            );
            assert_eq!(
                refund.next_attempt_time.is_some(),
                expected.ended.is_none(),
                "a refund must have a next attempt time exactly while it is not settled"
            );
            assert_eq!(
                order.refund == Some(refund.id),
                expected.ended != Some(RefundResult::Failed),
                "the order must refer to exactly the refund that has not failed"
            );
        }
        let paid_back = self.refunds.iter().filter(|refund| refund.status.as_str() == "SUCCESS").count();
        assert_eq!(
            paid_back,
            usize::from(order.status == OrderStatus::Refunded),
            "one refund must have succeeded if the order is refunded, and none otherwise"
        );
    }
}

fn label(refusal: &OrderRefusal) -> &'static str {
    match refusal {
        OrderRefusal::NotAllowed { .. } => "not allowed",
        OrderRefusal::WrongStatus { .. } => "wrong status",
        OrderRefusal::Refunding { .. } => "refunding",
        OrderRefusal::NotOverdue | OrderRefusal::Assets(_) | OrderRefusal::Product(_) => panic!("{refusal}"),
    }
}

proptest! {
    #![proptest_config(model_cases())]

    #[test]
    fn order_and_refunds_agree_with_the_model(steps in prop::collection::vec(steps(), 0..25)) {
        let order = order(OrderStatus::Paid);
        let mut model = Model { status: "paid", running: None, version: order.version, refunds: vec![] };
        let mut actual = Actual { order, refunds: vec![] };
        let mut now = placed_at();
        for step in steps {
            now += TimeDelta::seconds(1);
            let events = actual.step(step, now);
            let events = events.map(|events| events.iter().map(|event| event.event_type().as_str()).collect());
            prop_assert_eq!(events, model.step(step).map_err(str::to_owned), "{:?}", step);
            actual.assert_agreement(&model);
        }
    }
}
