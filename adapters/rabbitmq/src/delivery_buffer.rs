//! Deliveries of one subscription: those not yet passed to the consumer, and those passed and not settled.
//!
//! **Invariant:** tags passed to the consumer increase, and waiting tags are higher than all of them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;

use handover_outbox::ports::{Delivery, DeliveryTag};
use tokio::sync::Notify;

use crate::mutex::lock;

pub(crate) struct DeliveryBuffer {
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

/// The subscription has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended;

/// The smallest set of frames that settles exactly the given tags.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Frames {
    /// One frame settles all unsettled deliveries with tags up to this one.
    pub(crate) up_to: Option<u64>,
    /// Tags above `up_to`; one frame settles each of them.
    pub(crate) single: Vec<u64>,
}

impl DeliveryBuffer {
    pub(crate) fn new(queue: &str) -> DeliveryBuffer {
        DeliveryBuffer { queue: queue.to_owned(), state: Mutex::default(), changed: Notify::new() }
    }

    pub(crate) fn queue(&self) -> &str {
        &self.queue
    }

    pub(crate) fn push(&self, delivery: Delivery) {
        lock(&self.state).waiting.push_back(delivery);
        self.changed.notify_waiters();
    }

    /// Ends the subscription and discards its deliveries. The server returns them to the queue when it closes the
    /// channel.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.state);
        *state = State { ended: true, ..State::default() };
        drop(state);
        self.changed.notify_waiters();
    }

    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.state).ended
    }

    /// Waits for deliveries and returns all of them. A cancelled call removes none.
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

    /// Removes these tags and returns the frames that settle them. Settled and unknown tags are ignored.
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

    /// Returns the number of waiting deliveries and the number of unsettled deliveries, in this order.
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

    async fn buffer_with_unsettled(tags: std::ops::RangeInclusive<u64>) -> DeliveryBuffer {
        let buffer = DeliveryBuffer::new("queue");
        for tag in tags {
            buffer.push(Delivery {
                tag: DeliveryTag(tag),
                redelivered: false,
                died_in: None,
                message: Message::default(),
            });
        }
        buffer.take().await.unwrap();
        buffer
    }

    fn settle(buffer: &DeliveryBuffer, tags: &[u64]) -> (Option<u64>, Vec<u64>) {
        let tags: Vec<_> = tags.iter().copied().map(DeliveryTag).collect();
        let Frames { up_to, single } = buffer.settle(&tags).unwrap();
        (up_to, single)
    }

    #[tokio::test]
    async fn oldest_tags_are_settled_together_and_others_individually() {
        let buffer = buffer_with_unsettled(1..=6).await;
        assert_eq!(settle(&buffer, &[4, 1, 2, 6]), (Some(2), vec![4, 6]));
        assert_eq!(settle(&buffer, &[3]), (Some(3), vec![]));
        assert_eq!(settle(&buffer, &[5]), (Some(5), vec![]));
        assert_eq!(buffer.counts(), (0, 0));
    }

    #[tokio::test]
    async fn settled_and_unknown_tags_are_ignored() {
        let buffer = buffer_with_unsettled(1..=3).await;
        assert_eq!(settle(&buffer, &[1]), (Some(1), vec![]));
        assert_eq!(settle(&buffer, &[1, 9]), (None, vec![]));
        assert_eq!(settle(&buffer, &[1, 3]), (None, vec![3]));
        assert_eq!(buffer.counts(), (0, 1));
    }

    #[tokio::test]
    async fn ended_buffer_returns_and_settles_nothing() {
        let buffer = buffer_with_unsettled(1..=2).await;
        buffer.end();
        assert_eq!(buffer.take().await, Err(Ended));
        assert_eq!(buffer.settle(&[DeliveryTag(1)]), Err(Ended));
        assert_eq!(buffer.counts(), (0, 0));
    }
}
