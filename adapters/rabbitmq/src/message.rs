//! Messages as RabbitMQ carries them.

use std::collections::BTreeMap;

use handover_outbox::ports::{Delivery, DeliveryTag, Message};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

/// Survives a restart of the server.
const PERSISTENT: u8 = 2;
const CONTENT_TYPE: &str = "application/json";

/// What the server itself writes into the headers. Taken along to another publish, it would steer the server: `CC` and
/// `BCC` route, and a copied `x-death` makes it drop a message silently as one that goes in circles.
const OF_THE_SERVER: [&str; 13] = [
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

/// How a message died that somebody had in hand. One that expired was in nobody's.
const DIED_IN_HAND: [&str; 2] = ["rejected", "delivery_limit"];

/// Frame, class, weight, size, flags and the fixed fields, generously.
const HEADER_FRAME_OVERHEAD: usize = 64;

/// The properties that a message is published with; the error says why RabbitMQ cannot carry it.
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
    let own = |name: &&String| !OF_THE_SERVER.contains(&name.as_str());
    let mut size = HEADER_FRAME_OVERHEAD;
    for text in [&message.message_id, &message.kind, &message.correlation_id].into_iter().flatten() {
        size += text.len();
    }
    let mut headers = FieldTable::default();
    for (name, value) in message.headers.iter().filter(|(name, _)| own(name)) {
        // A length before the name, a type and a length before the value.
        size += name.len() + value.len() + 6;
        headers.insert(short("a header's name", name)?, AMQPValue::LongString(value.as_str().into()));
    }
    if size > frame_max {
        return Err(format!("its headers take {size} bytes, and the server takes {frame_max} at most"));
    }
    Ok(properties.with_headers(headers))
}

/// A text of at most 255 bytes; the error says what is longer.
pub(crate) fn short(what: &str, text: &str) -> Result<ShortString, String> {
    ShortString::try_new(text)
        .map_err(|_| format!("{what} has {} bytes, and AMQP takes 255 at most", text.len()))
}

/// A delivery as consumers see it.
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

/// A body as text. Bytes that are not UTF-8 are written `\xNN`: two different bodies stay different, and neither becomes
/// JSON by it.
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
    let own = table.into_iter().filter(|(name, _)| !OF_THE_SERVER.contains(&name.as_str()));
    own.filter_map(|(name, value)| Some((name.as_str().to_owned(), text_of(value)?))).collect()
}

/// The queue at whose consumer a message died last: deaths are listed with the latest first.
fn died_in(headers: &FieldTable) -> Option<String> {
    let deaths = headers.inner().get("x-death")?.as_array()?;
    deaths.as_slice().iter().filter_map(AMQPValue::as_field_table).find_map(|death| {
        let field = |name: &str| text_of(death.inner().get(name)?);
        if DIED_IN_HAND.contains(&field("reason")?.as_str()) { field("queue") } else { None }
    })
}

/// A value that has one text; messages of ours have no others.
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

    fn headed(headers: &[(&str, &str)]) -> Message {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Message { headers, ..Message::default() }
    }

    #[test]
    fn a_message_died_where_it_was_rejected_last() {
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
    fn headers_of_the_server_are_neither_read_nor_written() {
        let table = table([("x-death", text("a")), ("CC", text("b")), ("tenantId", text("1"))]);
        assert_eq!(headers_of(&table), BTreeMap::from([("tenantId".to_owned(), "1".to_owned())]));
        let message = headed(&[("x-delivery-count", "3"), ("BCC", "everywhere"), ("tenantId", "1")]);
        let written = properties_of(&message, FRAME).unwrap();
        let names: Vec<_> =
            written.headers().as_ref().unwrap().into_iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["tenantId"]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_written_as_escapes_and_stay_different() {
        assert_eq!(body_of("{\"title\":\"灯\"}".into()), "{\"title\":\"灯\"}");
        assert_eq!(body_of(b"a\xff\x00\xc3(".to_vec()), "a\\xff\0\\xc3(");
        assert_ne!(body_of(vec![0xfe]), body_of(vec![0xff]));
    }

    #[test]
    fn numbers_in_the_headers_of_others_are_read() {
        let table = table([("tenantId", AMQPValue::LongLongInt(-7)), ("odd", AMQPValue::Void)]);
        assert_eq!(headers_of(&table), BTreeMap::from([("tenantId".to_owned(), "-7".to_owned())]));
    }

    #[test]
    fn what_amqp_cannot_carry_is_told_before_it_is_sent() {
        let id = |length: usize| Message { message_id: Some("x".repeat(length)), ..Message::default() };
        assert!(properties_of(&id(255), FRAME).is_ok());
        assert!(properties_of(&id(256), FRAME).unwrap_err().contains("message_id has 256 bytes"));
        assert!(properties_of(&headed(&[(&"n".repeat(256), "v")]), FRAME).is_err());
        assert!(properties_of(&headed(&[("n", &"v".repeat(3_000))]), 4_096).is_ok());
        assert!(properties_of(&headed(&[("n", &"v".repeat(4_096))]), 4_096).is_err());
    }
}
