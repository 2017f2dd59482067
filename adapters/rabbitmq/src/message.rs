//! Converts messages to and from AMQP.

use std::collections::BTreeMap;

use handover_outbox::ports::{Delivery, DeliveryTag, Message};
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

/// Properties of a message to be published. The error says why RabbitMQ cannot carry it.
pub(crate) fn properties_of(message: &Message, frame_max: usize) -> Result<BasicProperties, String> {
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

pub(crate) fn delivery_of(delivery: lapin::message::Delivery) -> Delivery {
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
        died_in: properties.headers().as_ref().and_then(died_in),
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

/// Queue whose consumer last rejected the message; `x-death` lists the latest entry first.
fn died_in(headers: &FieldTable) -> Option<String> {
    let deaths = headers.inner().get("x-death")?.as_array()?;
    deaths.as_slice().iter().filter_map(AMQPValue::as_field_table).find_map(|death| {
        let field = |name: &str| text_of(death.inner().get(name)?);
        if CONSUMER_REJECTION_REASONS.contains(&field("reason")?.as_str()) { field("queue") } else { None }
    })
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
        assert_eq!(
            died_in(&deaths(vec![death("b", "rejected"), death("a", "rejected")])).as_deref(),
            Some("b")
        );
        assert_eq!(
            died_in(&deaths(vec![death("b", "expired"), death("a", "rejected")])).as_deref(),
            Some("a")
        );
        assert_eq!(died_in(&deaths(vec![death("b", "expired")])), None);
        assert_eq!(died_in(&deaths(vec![death("a", "delivery_limit")])).as_deref(), Some("a"));
        assert_eq!(died_in(&table([("x-death", text("not a list"))])), None);
    }

    #[test]
    fn server_headers_are_neither_read_nor_written() {
        let table = table([("x-death", text("a")), ("CC", text("b")), ("tenantId", text("1"))]);
        assert_eq!(headers_of(&table), BTreeMap::from([("tenantId".to_owned(), "1".to_owned())]));
        let message = with_headers(&[("x-delivery-count", "3"), ("BCC", "everywhere"), ("tenantId", "1")]);
        let written = properties_of(&message, FRAME).unwrap();
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
        assert!(properties_of(&id(255), FRAME).is_ok());
        assert!(properties_of(&id(256), FRAME).unwrap_err().contains("message_id has 256 bytes"));
        assert!(properties_of(&with_headers(&[(&"n".repeat(256), "v")]), FRAME).is_err());
        assert!(properties_of(&with_headers(&[("n", &"v".repeat(3_000))]), 4_096).is_ok());
        assert!(properties_of(&with_headers(&[("n", &"v".repeat(4_096))]), 4_096).is_err());
    }
}
