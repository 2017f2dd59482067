//! The consumers: `[consumer]`.

use handover_outbox::ConsumerSettings;

use super::error::ConfigError;
use super::read::Reader;
use super::{HOUR, MILLISECOND, MINUTE, SECOND, retry};

pub(super) fn consumer(reader: &Reader<'_>) -> Result<ConsumerSettings, ConfigError> {
    let why =
        "AMQP takes 0 as unlimited, which would fill the memory, and has 16 bits for the prefetch count";
    let prefetch = reader.value("consumer.prefetch", "20").count(1..=u16::MAX, why)?;
    let retry = retry::consumer(reader)?;
    let timeout_item = reader.value("consumer.attempt-timeout", "10s");
    let lease_item = reader.value("consumer.lease", "15s");
    let why = "a short timeout aborts slow handlers, a long one waits for handlers that hang";
    let attempt_timeout = timeout_item.duration(MILLISECOND * 10..=MINUTE * 10, why)?;
    let why =
        "a short lease ends while its attempt still runs, and a long one blocks other workers after a crash";
    let lease = lease_item.duration(MILLISECOND * 10..=HOUR, why)?;
    if lease <= attempt_timeout {
        let why = "another worker could start while the first attempt still runs";
        return Err(lease_item.too_short("above", &timeout_item, attempt_timeout, why));
    }
    let why = "the sweep finds interrupted attempts: it must run regularly, but not continuously";
    let sweep_interval =
        reader.value("consumer.sweep-interval", "5s").duration(MILLISECOND * 10..=HOUR, why)?;
    let why = "with a short time, the sweep applies events that the broker still delivers; with a long one, lost events are applied late";
    let lost_after = reader.value("consumer.lost-after", "60s").duration(SECOND..=HOUR, why)?;
    let why = "events of so many aggregates seldom fail in a row before they are dead letters";
    let breaker = reader.value("consumer.breaker", "10").count(0..=1000, why)?;
    Ok(ConsumerSettings { prefetch, retry, attempt_timeout, lease, sweep_interval, lost_after, breaker })
}
