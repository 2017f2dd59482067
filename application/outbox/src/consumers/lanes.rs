//! Deliveries that are processed one by one. Each aggregate has a lane of its own: a queue whose deliveries are processed in
//! their order, while other lanes run concurrently.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handover_events::AggregateRef;

use super::identity::ParsedDelivery;
use crate::settings::ConsumeOrder;

/// The open lanes of one subscription. Clones share them.
#[derive(Clone)]
pub(super) struct Lanes {
    order: ConsumeOrder,
    open: Arc<Mutex<BTreeMap<AggregateRef, VecDeque<ParsedDelivery>>>>,
}

impl Lanes {
    pub(super) fn new(order: ConsumeOrder) -> Lanes {
        Lanes { order, open: Arc::default() }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<AggregateRef, VecDeque<ParsedDelivery>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends deliveries to the lane of their aggregate, if it has one; returns the others.
    pub(super) fn join(&self, deliveries: Vec<ParsedDelivery>) -> Vec<ParsedDelivery> {
        let mut open = self.open();
        let mut fresh = Vec::with_capacity(deliveries.len());
        for parsed in deliveries {
            match open.get_mut(&parsed.lane(self.order)) {
                Some(lane) => lane.push_back(parsed),
                None => fresh.push(parsed),
            }
        }
        fresh
    }

    /// Appends a delivery to the lane of its aggregate. Returns the aggregate if the lane is new: the caller MUST then take its
    /// deliveries with [`next`](Lanes::next) until there is none.
    pub(super) fn push(&self, parsed: ParsedDelivery) -> Option<AggregateRef> {
        let key = parsed.lane(self.order);
        let mut open = self.open();
        if let Some(lane) = open.get_mut(&key) {
            lane.push_back(parsed);
            return None;
        }
        open.insert(key.clone(), VecDeque::from([parsed]));
        Some(key)
    }

    /// Takes the next delivery of a lane; closes the lane if there is none.
    pub(super) fn next(&self, key: &AggregateRef) -> Option<ParsedDelivery> {
        let mut open = self.open();
        let next = open.get_mut(key).and_then(VecDeque::pop_front);
        if next.is_none() {
            open.remove(key);
        }
        next
    }
}
