//! The consumers: `[consumer]`.

use handover_outbox::ConsumerSettings;

use super::retry;
use crate::config::{Checked, HOUR, MILLISECOND, MINUTE, Reader, SECOND};

const ATTEMPT_TIMEOUT: &str = "consumer.attempt-timeout";
const LEASE: &str = "consumer.lease";

/// Reads `consumer.*`.
pub fn consumer(reader: &Reader<'_>) -> Checked<ConsumerSettings> {
    let why =
        "AMQP takes 0 as unlimited, which would fill the memory, and has 16 bits for the prefetch count";
    let prefetch = reader.count("consumer.prefetch", "20", 1..=u16::MAX, why);
    let retry = retry::consumer(reader);
    let why = "a short timeout aborts slow handlers, a long one waits for handlers that hang";
    let attempt_timeout = reader.duration(ATTEMPT_TIMEOUT, "10s", MILLISECOND * 10..=MINUTE * 10, why);
    let why =
        "a short lease ends while its attempt still runs, and a long one blocks other workers after a crash";
    let lease = reader.duration(LEASE, "15s", MILLISECOND * 10..=HOUR, why);
    if let (Ok(lease), Ok(attempt_timeout)) = (lease, attempt_timeout)
        && lease <= attempt_timeout
    {
        let why = "another worker could start while the first attempt still runs";
        reader.too_short(LEASE, "above", ATTEMPT_TIMEOUT, attempt_timeout, why);
    }
    let why = "the sweep finds interrupted attempts: it must run regularly, but not continuously";
    let sweep_interval = reader.duration("consumer.sweep-interval", "5s", MILLISECOND * 10..=HOUR, why);
    let why = "with a short time, the sweep applies events that the broker still delivers; with a long one, lost events are applied late";
    let lost_after = reader.duration("consumer.lost-after", "60s", SECOND..=HOUR, why);
    let why = "events of so many aggregates seldom fail in a row before they are dead letters";
    let breaker = reader.count("consumer.breaker", "10", 0..=1000, why);
    Ok(ConsumerSettings {
        prefetch: prefetch?,
        retry: retry?,
        attempt_timeout: attempt_timeout?,
        lease: lease?,
        sweep_interval: sweep_interval?,
        lost_after: lost_after?,
        breaker: breaker?,
    })
}
