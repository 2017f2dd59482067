//! Converts messages to and from AMQP.

use std::collections::BTreeMap;

use handover_outbox::ports::{Delivery, DeliveryTag, Message};
use handover_outbox::topology::Topology;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

/// Delivery mode of messages that survive a restart of the server.
const PERSISTENT: u8 = 2;
const CONTENT_TYPE: &str = "application/json";

/// Headers that the server writes or interprets. In a new publish they would control the server: `CC` and `BCC` add
/// routing keys, and with a copied `x-death` the server silently drops the message as a dead-letter cycle.
const SERVER_HEADERS: [&str; 13] = [
    "x-death",
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
    "x-delivery-count",
    "x-acquired-count",
    "x-opt-deaths",
    "x-delay",
    "CC",
    "BCC",
];

/// Reasons for dead-lettering a message that a consumer had received. `expired` is not one of them: RabbitMQ removes an
/// expired message from the queue without a consumer.
const CONSUMER_REJECTION_REASONS: [&str; 2] = ["rejected", "delivery_limit"];

/// Upper bound, in bytes, of a header frame without the texts and headers of the message.
const HEADER_FRAME_OVERHEAD: usize = 64;

/// Properties of a message to be published, also with these routing keys. The error says why RabbitMQ cannot carry it.
pub(crate) fn properties_of(
    message: &Message,
    keys: &[String],
    frame_max: usize,
) -> Result<BasicProperties, String> {
    let mut properties =
        BasicProperties::default().with_delivery_mode(PERSISTENT).with_content_type(CONTENT_TYPE.into());
    if let Some(id) = &message.message_id {
        properties = properties.with_message_id(short("message_id", id)?);
    }
    if let Some(kind) = &message.kind {
        properties = properties.with_type(short("type", kind)?);
    }
    if let Some(id) = &message.correlation_id {
        properties = properties.with_correlation_id(short("correlation_id", id)?);
    }
    let own = |name: &&String| !SERVER_HEADERS.contains(&name.as_str());
    let mut size = HEADER_FRAME_OVERHEAD;
    for text in [&message.message_id, &message.kind, &message.correlation_id].into_iter().flatten() {
        size += text.len();
    }
    let mut headers = FieldTable::default();
    for (name, value) in message.headers.iter().filter(|(name, _)| own(name)) {
        // AMQP writes a header as one length byte, the name, one type byte, four length bytes and the value.
        size += name.len() + value.len() + 6;
        headers.insert(short("a header's name", name)?, AMQPValue::LongString(value.as_str().into()));
    }
    if !keys.is_empty() {
        let value = |key: &String| AMQPValue::LongString(key.as_str().into());
        size += "CC".len() + 6 + keys.iter().map(|key| key.len() + 5).sum::<usize>();
        headers.insert("CC".into(), AMQPValue::FieldArray(keys.iter().map(value).collect::<Vec<_>>().into()));
    }
    if size > frame_max {
        return Err(format!("its headers have {size} bytes; the server accepts at most {frame_max}"));
    }
    Ok(properties.with_headers(headers))
}

/// Converts a text to a short string of AMQP, which has at most 255 bytes. The error names the text that is too long.
pub(crate) fn short(what: &str, text: &str) -> Result<ShortString, String> {
    ShortString::try_new(text)
        .map_err(|_| format!("{what} has {} bytes; AMQP allows at most 255", text.len()))
}

/// Converts a delivery from this queue.
pub(crate) fn delivery_of(
    delivery: lapin::message::Delivery,
    queue: &str,
    topology: Option<&Topology>,
) -> Delivery {
    let properties = &delivery.properties;
    let text = |text: &Option<ShortString>| text.as_ref().map(|text| text.as_str().to_owned());
    let message = Message {
        message_id: text(properties.message_id()),
        kind: text(properties.kind()),
        correlation_id: text(properties.correlation_id()),
        headers: properties.headers().as_ref().map(headers_of).unwrap_or_default(),
        body: body_of(delivery.data),
    };
    Delivery {
        tag: DeliveryTag(delivery.delivery_tag),
        redelivered: delivery.redelivered,
        died_in: properties.headers().as_ref().and_then(|headers| died_in(headers, queue, topology)),
        message,
    }
}

/// Body as text. Bytes that are not UTF-8 are written as `\xNN`, so that the text shows them and is not valid JSON.
fn body_of(data: Vec<u8>) -> String {
    match String::from_utf8(data) {
        Ok(text) => text,
        Err(error) => error.as_bytes().utf8_chunks().fold(String::new(), |mut text, chunk| {
            text.push_str(chunk.valid());
            for byte in chunk.invalid() {
                text.push_str(&format!("\\x{byte:02x}"));
            }
            text
        }),
    }
}

fn headers_of(table: &FieldTable) -> BTreeMap<String, String> {
    let own = table.into_iter().filter(|(name, _)| !SERVER_HEADERS.contains(&name.as_str()));
    own.filter_map(|(name, value)| Some((name.as_str().to_owned(), text_of(value)?))).collect()
}

/// An entry of `x-death`.
struct Death {
    queue: String,
    reason: String,
}

impl Death {
    fn is_rejection(&self) -> bool {
        CONSUMER_REJECTION_REASONS.contains(&self.reason.as_str())
    }
}

/// Queue from which a message reached the subscribed queue; `x-death` lists the latest entry first.
///
/// In the dead-letter queue, it is the latest queue of the topology whose dead letters go there, whatever the reason: with
/// a policy of an administrator, messages also expire or exceed a length. Entries of the dead-letter queue itself, and of
/// queues through which an administrator has moved the message, are not its origin. In other queues, it is the queue
/// whose consumer last rejected the message.
fn died_in(headers: &FieldTable, subscribed: &str, topology: Option<&Topology>) -> Option<String> {
    let entries = headers.inner().get("x-death")?.as_array()?;
    let death = |entry: &FieldTable| {
        let field = |name: &str| text_of(entry.inner().get(name)?);
        Some(Death { queue: field("queue")?, reason: field("reason")? })
    };
    let deaths = entries.as_slice().iter().filter_map(AMQPValue::as_field_table).filter_map(death);
    let Some(topology) = topology.filter(|topology| topology.dead_letter_queue == subscribed) else {
        return deaths.into_iter().find(Death::is_rejection).map(|death| death.queue);
    };
    let elsewhere: Vec<Death> = deaths.filter(|death| death.queue != subscribed).collect();
    let is_origin = |death: &&Death| {
        let mut queues = topology.queues.iter().filter(|spec| spec.name == death.queue);
        queues.any(|spec| spec.dead_letter_key.as_ref() == Some(&topology.dead_letter_key))
    };
    let origin = elsewhere
        .iter()
        .find(is_origin)
        .or_else(|| elsewhere.iter().find(|death| death.is_rejection()))
        .or(elsewhere.first());
    origin.map(|death| death.queue.clone())
}

/// Value as text; `None` if it has no unambiguous text form. This crate writes only strings.
fn text_of(value: &AMQPValue) -> Option<String> {
    match value {
        AMQPValue::LongString(text) => Some(text.to_string()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        AMQPValue::Boolean(value) => Some(value.to_string()),
        AMQPValue::ShortShortInt(value) => Some(value.to_string()),
        AMQPValue::ShortShortUInt(value) => Some(value.to_string()),
        AMQPValue::ShortInt(value) => Some(value.to_string()),
        AMQPValue::ShortUInt(value) => Some(value.to_string()),
        AMQPValue::LongInt(value) => Some(value.to_string()),
        AMQPValue::LongUInt(value) => Some(value.to_string()),
        AMQPValue::LongLongInt(value) => Some(value.to_string()),
        AMQPValue::Float(_)
        | AMQPValue::Double(_)
        | AMQPValue::DecimalValue(_)
        | AMQPValue::FieldArray(_)
        | AMQPValue::Timestamp(_)
        | AMQPValue::FieldTable(_)
        | AMQPValue::ByteArray(_)
        | AMQPValue::Void => None,
    }
}

#[cfg(test)]
mod tests {
    use handover_outbox::topology::QueueSpec;

    use super::*;

    const FRAME: usize = 131_072;

    fn table<const N: usize>(entries: [(&str, AMQPValue); N]) -> FieldTable {
        entries.into_iter().map(|(name, value)| (name.into(), value)).collect::<BTreeMap<_, _>>().into()
    }

    fn text(text: &str) -> AMQPValue {
        AMQPValue::LongString(text.into())
    }

    fn death(queue: &str, reason: &str) -> AMQPValue {
        AMQPValue::FieldTable(table([("queue", text(queue)), ("reason", text(reason))]))
    }

    fn deaths(deaths: Vec<AMQPValue>) -> FieldTable {
        table([("x-death", AMQPValue::FieldArray(deaths.into()))])
    }

    fn with_headers(headers: &[(&str, &str)]) -> Message {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Message { headers, ..Message::default() }
    }

    #[test]
    fn died_in_is_the_queue_of_the_last_rejection() {
        let topology = Topology::new("events", "dlq", "dead").with("a", &["a"]);
        for topology in [None, Some(&topology)] {
            let died_in = |headers: &FieldTable| died_in(headers, "b", topology);
            assert_eq!(
                died_in(&deaths(vec![death("b", "rejected"), death("a", "rejected")])).as_deref(),
                Some("b")
            );
            assert_eq!(
                died_in(&deaths(vec![death("b", "expired"), death("a", "rejected")])).as_deref(),
                Some("a")
            );
            assert_eq!(died_in(&deaths(vec![death("a", "expired")])), None);
            assert_eq!(died_in(&deaths(vec![death("a", "delivery_limit")])).as_deref(), Some("a"));
            assert_eq!(died_in(&table([("x-death", text("not a list"))])), None);
        }
    }

    #[test]
    fn origin_of_a_dead_letter_is_the_latest_queue_whose_dead_letters_go_to_the_dead_letter_queue() {
        let delay = QueueSpec {
            name: "delay".to_owned(),
            bindings: vec!["later".to_owned()],
            ttl: None,
            dead_letter_key: Some("due".to_owned()),
            is_selective: false,
            receives_from: None,
        };
        let topology =
            Topology::new("events", "dlq", "dead").with("a", &["a"]).with("b", &["b"]).with_queue(delay);
        type History = &'static [(&'static str, &'static str)];
        let cases: [(History, Option<&str>); 11] = [
            (&[("a", "rejected")], Some("a")),
            // A policy limits the queue.
            (&[("a", "expired")], Some("a")),
            (&[("a", "maxlen")], Some("a")),
            (&[("a", "expired"), ("b", "rejected")], Some("a")),
            (&[("a", "expired"), ("delay", "expired")], Some("a")),
            // The message was dropped from the dead-letter queue and came back.
            (&[("dlq", "maxlen"), ("a", "rejected")], Some("a")),
            (&[("parking", "rejected"), ("dlq", "expired"), ("a", "expired")], Some("a")),
            (&[("dlq", "rejected"), ("delay", "expired"), ("b", "delivery_limit")], Some("b")),
            // Queues that the topology does not contain, such as those of an earlier version.
            (&[("parking", "expired"), ("earlier", "rejected")], Some("earlier")),
            (&[("earlier", "expired")], Some("earlier")),
            (&[("dlq", "expired")], None),
        ];
        for (history, origin) in cases {
            let history = deaths(history.iter().map(|(queue, reason)| death(queue, reason)).collect());
            assert_eq!(died_in(&history, "dlq", Some(&topology)).as_deref(), origin, "{history:?}");
        }
    }

    #[test]
    fn server_headers_are_neither_read_nor_written() {
        let table = table([("x-death", text("a")), ("CC", text("b")), ("tenantId", text("1"))]);
        assert_eq!(headers_of(&table), BTreeMap::from([("tenantId".to_owned(), "1".to_owned())]));
        let message = with_headers(&[("x-delivery-count", "3"), ("BCC", "everywhere"), ("tenantId", "1")]);
        let written = properties_of(&message, &[], FRAME).unwrap();
        let names: Vec<_> =
            written.headers().as_ref().unwrap().into_iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["tenantId"]);
    }

    #[test]
    fn invalid_utf8_bytes_are_escaped() {
        assert_eq!(body_of("{\"title\":\"灯\"}".into()), "{\"title\":\"灯\"}");
        assert_eq!(body_of(b"a\xff\x00\xc3(".to_vec()), "a\\xff\0\\xc3(");
        assert_ne!(body_of(vec![0xfe]), body_of(vec![0xff]));
    }

    #[test]
    fn numeric_headers_of_other_publishers_are_read() {
        let table = table([("tenantId", AMQPValue::LongLongInt(-7)), ("odd", AMQPValue::Void)]);
        assert_eq!(headers_of(&table), BTreeMap::from([("tenantId".to_owned(), "-7".to_owned())]));
    }

    #[test]
    fn message_that_amqp_cannot_carry_is_rejected_before_publishing() {
        let id = |length: usize| Message { message_id: Some("x".repeat(length)), ..Message::default() };
        assert!(properties_of(&id(255), &[], FRAME).is_ok());
        assert!(properties_of(&id(256), &[], FRAME).unwrap_err().contains("message_id has 256 bytes"));
        assert!(properties_of(&with_headers(&[(&"n".repeat(256), "v")]), &[], FRAME).is_err());
        assert!(properties_of(&with_headers(&[("n", &"v".repeat(3_000))]), &[], 4_096).is_ok());
        assert!(properties_of(&with_headers(&[("n", &"v".repeat(4_096))]), &[], 4_096).is_err());
    }
}
