//! Where the events of consumers come from: this service, or the exchange of another one.

use std::collections::BTreeMap;

use crate::broker::BrokerChoice;
use crate::consumer::Consumer;
use crate::error::BuildError;
use crate::parts::exchange;
use crate::registration::Registration;

/// Maximum length of the name of an exchange in AMQP.
const MAX_EXCHANGE: usize = 255;

/// Refuses consumers that could not receive the events of another service, and aggregate types with events of two
/// services. `declared` are the event types that this service enqueues without a consumer.
pub(crate) fn check_origins<U: ?Sized>(
    service: &str,
    broker: Option<&BrokerChoice>,
    declared: &[Registration],
    consumers: &[Consumer<U>],
) -> Result<(), BuildError> {
    for consumer in consumers {
        check_exchange(service, broker, consumer)?;
    }
    let own = declared.iter().map(|event| (event, None));
    let of_consumers = consumers
        .iter()
        .flat_map(|consumer| consumer.events.iter().map(|event| (event, consumer.receives_from.as_deref())));
    let mut origins = BTreeMap::new();
    for (event, origin) in own.chain(of_consumers) {
        let (first, first_origin) = *origins.entry(event.aggregate).or_insert((event.name, origin));
        if first_origin != origin {
            let name = |origin: Option<&str>| {
                origin.map_or_else(|| "this service".to_owned(), |exchange| format!("exchange {exchange:?}"))
            };
            return Err(BuildError::TwoOrigins {
                aggregate: event.aggregate,
                first,
                first_origin: name(first_origin),
                second: event.name,
                second_origin: name(origin),
            });
        }
    }
    Ok(())
}

/// The exchange from which this service receives the events of each aggregate type that another service owns.
pub(crate) fn origins<U: ?Sized>(consumers: &[Consumer<U>]) -> BTreeMap<&'static str, String> {
    let received = consumers.iter().filter_map(|consumer| Some((consumer, consumer.receives_from.as_ref()?)));
    received
        .flat_map(|(consumer, from)| consumer.events.iter().map(|event| (event.aggregate, from.clone())))
        .collect()
}

fn check_exchange<U: ?Sized>(
    service: &str,
    broker: Option<&BrokerChoice>,
    consumer: &Consumer<U>,
) -> Result<(), BuildError> {
    let Some(from) = &consumer.receives_from else { return Ok(()) };
    let name = consumer.name.clone();
    let from = from.clone();
    if !(1..=MAX_EXCHANGE).contains(&from.len()) {
        return Err(BuildError::InvalidExchange { consumer: name, exchange: from });
    }
    if from == exchange(service) {
        return Err(BuildError::OwnExchange { consumer: name, exchange: from });
    }
    if broker.is_none() {
        return Err(BuildError::ReceivesWithoutBroker { consumer: name, exchange: from });
    }
    if consumer.is_selective {
        return Err(BuildError::SelectiveReceiver { consumer: name, exchange: from });
    }
    Ok(())
}
