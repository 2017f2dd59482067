//! What the server has delivered to one subscription, and what of it is not settled.
//!
//! **Invariant:** the tags that are handed out grow, and those that wait are higher than all of them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;

use handover_outbox::ports::{Delivery, DeliveryTag};
use tokio::sync::Notify;

use crate::shared::lock;

pub(crate) struct Inbox {
    queue: String,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Delivery>,
    unsettled: BTreeSet<u64>,
    ended: bool,
}

/// The subscription is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended;

/// The fewest frames that settle some tags and no others.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Frames {
    /// Everything up to this tag.
    pub(crate) up_to: Option<u64>,
    /// And these.
    pub(crate) single: Vec<u64>,
}

impl Inbox {
    pub(crate) fn new(queue: &str) -> Inbox {
        Inbox { queue: queue.to_owned(), state: Mutex::default(), changed: Notify::new() }
    }

    pub(crate) fn queue(&self) -> &str {
        &self.queue
    }

    /// Takes in what the server delivered.
    pub(crate) fn push(&self, delivery: Delivery) {
        lock(&self.state).waiting.push_back(delivery);
        self.changed.notify_waiters();
    }

    /// Ends the subscription: what it had, the server gives to others.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.state);
        *state = State { ended: true, ..State::default() };
        drop(state);
        self.changed.notify_waiters();
    }

    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.state).ended
    }

    /// Waits for deliveries and hands out all that are there. A dropped call has handed out nothing.
    pub(crate) async fn take(&self) -> Result<Vec<Delivery>, Ended> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = lock(&self.state);
                if state.ended {
                    return Err(Ended);
                }
                if !state.waiting.is_empty() {
                    let deliveries: Vec<Delivery> = state.waiting.drain(..).collect();
                    state.unsettled.extend(deliveries.iter().map(|delivery| delivery.tag.0));
                    return Ok(deliveries);
                }
            }
            changed.await;
        }
    }

    /// Strikes out what is settled now; tags that are settled already are left out.
    pub(crate) fn settle(&self, tags: &[DeliveryTag]) -> Result<Frames, Ended> {
        let mut state = lock(&self.state);
        if state.ended {
            return Err(Ended);
        }
        let settling: BTreeSet<u64> =
            tags.iter().map(|tag| tag.0).filter(|tag| state.unsettled.contains(tag)).collect();
        let up_to = state.unsettled.iter().copied().take_while(|tag| settling.contains(tag)).last();
        let single = settling.iter().copied().filter(|tag| up_to.is_none_or(|last| *tag > last)).collect();
        state.unsettled.retain(|tag| !settling.contains(tag));
        Ok(Frames { up_to, single })
    }

    /// How many are here and not handed out, and how many are handed out and not settled.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = lock(&self.state);
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        (count(state.waiting.len()), count(state.unsettled.len()))
    }
}

#[cfg(test)]
mod tests {
    use handover_outbox::ports::Message;

    use super::*;

    async fn holding(tags: std::ops::RangeInclusive<u64>) -> Inbox {
        let inbox = Inbox::new("queue");
        for tag in tags {
            inbox.push(Delivery {
                tag: DeliveryTag(tag),
                redelivered: false,
                died_in: None,
                message: Message::default(),
            });
        }
        inbox.take().await.unwrap();
        inbox
    }

    fn settle(inbox: &Inbox, tags: &[u64]) -> (Option<u64>, Vec<u64>) {
        let tags: Vec<_> = tags.iter().copied().map(DeliveryTag).collect();
        let Frames { up_to, single } = inbox.settle(&tags).unwrap();
        (up_to, single)
    }

    #[tokio::test]
    async fn the_oldest_are_settled_together_and_the_others_one_by_one() {
        let inbox = holding(1..=6).await;
        assert_eq!(settle(&inbox, &[4, 1, 2, 6]), (Some(2), vec![4, 6]));
        assert_eq!(settle(&inbox, &[3]), (Some(3), vec![]));
        assert_eq!(settle(&inbox, &[5]), (Some(5), vec![]));
        assert_eq!(inbox.counts(), (0, 0));
    }

    #[tokio::test]
    async fn what_is_settled_already_or_never_was_delivered_is_left_out() {
        let inbox = holding(1..=3).await;
        assert_eq!(settle(&inbox, &[1]), (Some(1), vec![]));
        assert_eq!(settle(&inbox, &[1, 9]), (None, vec![]));
        assert_eq!(settle(&inbox, &[1, 3]), (None, vec![3]));
        assert_eq!(inbox.counts(), (0, 1));
    }

    #[tokio::test]
    async fn an_inbox_that_ended_hands_out_and_settles_nothing() {
        let inbox = holding(1..=2).await;
        inbox.end();
        assert_eq!(inbox.take().await, Err(Ended));
        assert_eq!(inbox.settle(&[DeliveryTag(1)]), Err(Ended));
        assert_eq!(inbox.counts(), (0, 0));
    }
}
