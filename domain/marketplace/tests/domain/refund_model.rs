//! Orders and their refunds against plain facts, in whatever order requests, reports and shipping come.

use chrono::{DateTime, TimeDelta, Utc};
use marketplace_domain::{
    EventBody, Order, OrderAction, OrderActor, OrderRefusal, OrderStatus, Refund, RefundCause, RefundId,
    RefundRefusal, RefundResult,
};
use proptest::prelude::*;

use crate::common::{id, model_cases, money, order, payment, placed_at, shipment};

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Another refund is asked for.
    Begin(OrderActor),
    /// The gateway reports about one of those there are: the refund and its order are settled together.
    Report(usize, RefundResult),
    /// The order hears about a refund that is not its own.
    Stray(i64, RefundResult),
    /// The gateway is asked once more about one of them.
    Ask(usize),
    Ship,
    Complete,
}

fn steps() -> impl Strategy<Value = Step> {
    let result = prop_oneof![Just(RefundResult::Failed), Just(RefundResult::Success)].boxed();
    let actor = prop::sample::select(OrderActor::ALL);
    prop_oneof![
        4 => prop_oneof![Just(OrderActor::Buyer), Just(OrderActor::Operator), actor].prop_map(Step::Begin),
        4 => (0..5usize, result.clone()).prop_map(|(at, result)| Step::Report(at, result)),
        1 => (100..105i64, result).prop_map(|(refund, result)| Step::Stray(refund, result)),
        2 => (0..5usize).prop_map(Step::Ask),
        1 => Just(Step::Ship),
        1 => Just(Step::Complete),
    ]
}

/// One refund: how it ended, how often the gateway was asked, how often it changed.
#[derive(Clone)]
struct Asked {
    ended: Option<RefundResult>,
    times: u32,
    version: i64,
}

/// An order that was paid, and its refunds.
struct Model {
    status: &'static str,
    under_way: Option<usize>,
    version: i64,
    refunds: Vec<Asked>,
}

impl Model {
    /// The events that are announced, or a word for why not.
    fn step(&mut self, step: Step) -> Result<Vec<&'static str>, &'static str> {
        let told = match step {
            Step::Begin(OrderActor::Buyer | OrderActor::Operator) => {
                self.free_and_paid()?;
                self.under_way = Some(self.refunds.len());
                self.refunds.push(Asked { ended: None, times: 0, version: 1 });
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
                (refund.ended, refund.version) = (Some(result), refund.version + 1);
                self.under_way = None;
                match result {
                    RefundResult::Failed => vec!["REFUND_FAILED"],
                    RefundResult::Success => {
                        self.status = "refunded";
                        vec!["REFUND_SUCCEEDED", "ORDER_REFUNDED"]
                    }
                }
            }
            Step::Stray(..) => return Err("wrong status"),
            Step::Ask(at) => {
                if let Some(refund) = self.refunds.get_mut(at) {
                    (refund.times, refund.version) = (refund.times + 1, refund.version + 1);
                }
                return Ok(vec![]);
            }
            Step::Ship => {
                self.free_and_paid()?;
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
        Ok(told)
    }

    fn free_and_paid(&self) -> Result<(), &'static str> {
        match (self.status, self.under_way) {
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

/// The order and its refunds as the rules leave them.
struct World {
    order: Order,
    refunds: Vec<Refund>,
}

impl World {
    fn act(
        &mut self,
        action: &OrderAction,
        actor: OrderActor,
        now: DateTime<Utc>,
    ) -> Result<Vec<EventBody>, String> {
        let (after, events) =
            self.order.apply(action, actor, now).map_err(|refusal| order_word(&refusal).to_owned())?;
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
            Step::Stray(refund, result) => self.act(&ending(id(refund), result), OrderActor::Gateway, now),
            Step::Ask(at) => {
                if let Some(refund) = self.refunds.get_mut(at) {
                    *refund = refund.asked(now + TimeDelta::minutes(1), now);
                }
                Ok(vec![])
            }
            Step::Ship => self.act(&OrderAction::Ship(shipment()), OrderActor::Seller, now),
            Step::Complete => self.act(&OrderAction::Complete, OrderActor::Buyer, now),
        }
    }

    fn agrees_with(&self, model: &Model) {
        let order = &self.order;
        assert_eq!((order.status.as_str(), order.version), (model.status, model.version));
        let paid_back = model.refunds.iter().position(|asked| asked.ended == Some(RefundResult::Success));
        assert_eq!(order.refund, model.under_way.or(paid_back).map(|at| self.refunds[at].id));
        for (refund, asked) in self.refunds.iter().zip(&model.refunds) {
            let status = match asked.ended {
                None => "PROCESSING",
                Some(RefundResult::Success) => "SUCCESS",
                Some(RefundResult::Failed) => "FAILED",
            };
            assert_eq!(
                (refund.status.as_str(), refund.attempts, refund.version),
                (status, asked.times, asked.version)
            );
            assert_eq!(
                refund.next_attempt_time.is_some(),
                asked.ended.is_none(),
                "due while it has not reported"
            );
            assert_eq!(
                order.refund == Some(refund.id),
                asked.ended != Some(RefundResult::Failed),
                "one is under way at most"
            );
        }
        let paid_back = self.refunds.iter().filter(|refund| refund.status.as_str() == "SUCCESS").count();
        assert_eq!(paid_back, usize::from(order.status == OrderStatus::Refunded), "money goes back once");
    }
}

fn order_word(refusal: &OrderRefusal) -> &'static str {
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
    fn an_order_and_its_refunds_do_what_the_plain_facts_do(steps in prop::collection::vec(steps(), 0..25)) {
        let order = order(OrderStatus::Paid);
        let mut model = Model { status: "paid", under_way: None, version: order.version, refunds: vec![] };
        let mut world = World { order, refunds: vec![] };
        let mut now = placed_at();
        for step in steps {
            now += TimeDelta::seconds(1);
            let told = world.step(step, now);
            let told = told.map(|events| events.iter().map(|event| event.event_type().as_str()).collect());
            prop_assert_eq!(told, model.step(step).map_err(str::to_owned), "{:?}", step);
            world.agrees_with(&model);
        }
    }
}
