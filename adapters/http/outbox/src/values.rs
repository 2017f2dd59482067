//! Parses the values of body fields. [`reads!`](crate::reads) lists, for each kind of value in the OpenAPI document
//! ([`kinds`]), the Rust types that the value is parsed into. The parser, its error messages and the schema use the same
//! limits.

use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{
    AggregateId, ConsumeStatus, EventId, IdError, OutboxStatus, TextError, UnknownName, parse_time,
};
use handover_outbox::archive::MIN_RETENTION;
use handover_outbox::operations::{MAX_NAMED, Named, Reason, RedriveRate};
use handover_outbox::ports::{DeadLetterStatus, DeliveryState};
use handover_outbox::webhooks;
use serde_json::{Number, Value};

use crate::messages::{self, Text};
use crate::openapi::kinds;
use crate::value_limits::{
    MAX_KEY_CHARS, MAX_METRIC_CHARS, MAX_QUEUE_CHARS, MAX_ROUTING_KEY_CHARS, MAX_TYPE_CHARS, MAX_URL_CHARS,
};

/// A kind of value that is parsed into a `T`.
pub trait Reads<T> {
    /// Reads the value, or returns the error message.
    fn read(value: &Value) -> Result<T, Text>;
}

impl<I: TryFrom<i64, Error = IdError>> Reads<I> for kinds::Id {
    fn read(value: &Value) -> Result<I, Text> {
        let number = number(value)?.as_i64().ok_or(IdError::OutOfRange)?;
        Ok(I::try_from(number)?)
    }
}

/// A kind of value that a query parameter can have; parses its text into a `T`.
pub trait ReadsText<T> {
    /// Whether an empty parameter counts as absent.
    const EMPTY_IS_ABSENT: bool = true;

    /// Reads the text, or returns the error message.
    fn read_text(text: &str) -> Result<T, Text>;
}

/// Implements [`Reads`](crate::values::Reads). Each line is `Kind: Type = reader`; the kinds are in a module `kinds`.
#[macro_export]
macro_rules! reads {
    ($($kind:ident: $type:ty = $read:expr;)+) => {$(
        impl $crate::values::Reads<$type> for kinds::$kind {
            fn read(value: &::serde_json::Value) -> Result<$type, $crate::messages::Text> {
                let read: fn(&::serde_json::Value) -> Result<$type, $crate::messages::Text> = $read;
                read(value)
            }
        }
    )+};
}

reads! {
    EventId: EventId = of_text::<_, kinds::EventId>;
    AggregateId: i64 = |value| as_i64(value).ok_or(messages::NOT_AN_INTEGER);
    AggregateKey: AggregateId = of_text::<_, kinds::AggregateKey>;
    PerSecond: RedriveRate = per_second;
    Time: DateTime<Utc> = |value| time(text(value)?);
    RetentionTime: Duration = |value| retention(text(value)?).ok_or(messages::RETENTION_TIME);
    Cursor: i64 = |value| text(value)?.parse().ok().filter(|id| *id > 0).ok_or(messages::BAD_CURSOR);
    RedrivenStatus: OutboxStatus = |value| name(text(value)?);
    OperatorReason: Reason = |value| Ok(Reason::new(text(value)?.to_owned())?);
    EventType: String = of_text::<_, kinds::EventType>;
    AggregateType: String = of_text::<_, kinds::AggregateType>;
    QueueName: String = of_text::<_, kinds::QueueName>;
    DeadLetterKey: String = of_text::<_, kinds::DeadLetterKey>;
    WebhookUrl: String = |value| short_text(text(value)?, MAX_URL_CHARS);
    WebhookPattern: String = |value| visible_ascii(text(value)?, MAX_ROUTING_KEY_CHARS);
    WebhookType: String = of_text::<_, kinds::WebhookType>;
    WebhookDescription: String = |value| short_text(text(value)?, webhooks::MAX_DESCRIPTION_CHARS);
    AttemptsPerSecond: u32 = |value| up_to(value, 1, webhooks::MAX_PER_SECOND);
    MaxInFlight: u32 = |value| up_to(value, 1, webhooks::MAX_IN_FLIGHT);
    OverlapHours: u32 = |value| up_to(value, 0, webhooks::MAX_OVERLAP_HOURS);
}

impl Reads<bool> for bool {
    fn read(value: &Value) -> Result<bool, Text> {
        value.as_bool().ok_or(messages::NOT_A_BOOLEAN)
    }
}

/// Implements [`ReadsText`](crate::values::ReadsText). Each line is `Kind: Type = reader`; the kinds are in a module `kinds`.
#[macro_export]
macro_rules! reads_text {
    ($($kind:ident: $type:ty = $read:expr;)+) => {$(
        impl $crate::values::ReadsText<$type> for kinds::$kind {
            fn read_text(text: &str) -> Result<$type, $crate::messages::Text> {
                let read: fn(&str) -> Result<$type, $crate::messages::Text> = $read;
                read(text)
            }
        }
    )+};
}

impl<I: FromStr<Err = IdError>> ReadsText<I> for kinds::Id {
    fn read_text(text: &str) -> Result<I, Text> {
        Ok(text.parse()?)
    }
}

impl ReadsText<bool> for bool {
    fn read_text(text: &str) -> Result<bool, Text> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(messages::one_of("true false")),
        }
    }
}

reads_text! {
    OutboxStatus: OutboxStatus = name;
    ConsumeStatus: ConsumeStatus = name;
    DeadLetterStatus: DeadLetterStatus = dead_letter_status;
    EventId: EventId = |text| Ok(text.parse::<EventId>()?);
    EventType: String = |text| visible_ascii(text, MAX_TYPE_CHARS);
    AggregateType: String = |text| visible_ascii(text, MAX_TYPE_CHARS);
    AggregateKey: AggregateId = |text| AggregateId::text(text).map_err(|_| messages::AGGREGATE_KEY);
    AggregateId: i64 = |text| text.parse().map_err(|_| messages::NOT_AN_INTEGER);
    QueueName: String = |text| visible_ascii(text, MAX_QUEUE_CHARS);
    MetricName: String = |text| visible_ascii(text, MAX_METRIC_CHARS);
    DeadLetterKey: String = |text| visible_ascii(text, MAX_KEY_CHARS);
    Time: DateTime<Utc> = time_in_query;
    WebhookType: String = |text| visible_ascii(text, MAX_ROUTING_KEY_CHARS);
    DeliveryState: DeliveryState = delivery_state;
    HttpStatus: u16 = http_status;
}

fn dead_letter_status(text: &str) -> Result<DeadLetterStatus, Text> {
    let names = || DeadLetterStatus::ALL.iter().map(|status| status.as_str()).collect::<Vec<_>>();
    DeadLetterStatus::named(text).ok_or_else(|| messages::one_of(&names().join(" ")))
}

fn delivery_state(text: &str) -> Result<DeliveryState, Text> {
    let names = || DeliveryState::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>();
    DeliveryState::named(text).ok_or_else(|| messages::one_of(&names().join(" ")))
}

fn http_status(text: &str) -> Result<u16, Text> {
    let status = text.parse().ok().filter(|status| (100..=599).contains(status));
    status.ok_or_else(|| messages::integer_range(100, 599))
}

/// A list of 1 to [`MAX_PATTERNS`](webhooks::MAX_PATTERNS) patterns.
impl Reads<Vec<String>> for Vec<kinds::WebhookPattern> {
    fn read(value: &Value) -> Result<Vec<String>, Text> {
        let items = value.as_array().filter(|items| (1..=webhooks::MAX_PATTERNS).contains(&items.len()));
        let items = items.ok_or_else(|| messages::list(webhooks::MAX_PATTERNS))?;
        items.iter().map(kinds::WebhookPattern::read).collect()
    }
}

/// A list of 1 to [`MAX_NAMED`] items; duplicates are removed.
impl<T: Ord + Clone, K: Reads<T>> Reads<Named<T>> for Vec<K> {
    fn read(value: &Value) -> Result<Named<T>, Text> {
        // The length is checked before the items are parsed, to bound the work.
        let items = value.as_array().filter(|items| items.len() <= MAX_NAMED);
        let items = items.ok_or_else(|| messages::list(MAX_NAMED))?;
        let items = items.iter().map(K::read).collect::<Result<Vec<T>, Text>>()?;
        Named::new(items).ok_or_else(|| messages::list(MAX_NAMED))
    }
}

/// Reads a number.
pub fn number(value: &Value) -> Result<&Number, Text> {
    value.as_number().ok_or(messages::NOT_A_NUMBER)
}

fn as_i64(value: &Value) -> Option<i64> {
    value.as_number().and_then(Number::as_i64)
}

/// Reads a string.
pub fn text(value: &Value) -> Result<&str, Text> {
    value.as_str().ok_or(messages::NOT_TEXT)
}

/// Reads 1 to `max` visible ASCII characters.
pub fn visible_ascii(text: &str, max: usize) -> Result<String, Text> {
    let is_valid = (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if is_valid { Ok(text.to_owned()) } else { Err(messages::visible_ascii(max)) }
}

/// Reads 1 to `max` characters without control characters.
pub fn short_text(text: &str, max: usize) -> Result<String, Text> {
    TextError::check(text, max)?;
    Ok(text.to_owned())
}

/// Reads an RFC 3339 timestamp in the years 1 to 9999 in UTC.
pub fn time(text: &str) -> Result<DateTime<Utc>, Text> {
    Ok(parse_time(text)?)
}

/// Reads a number of seconds, minutes, hours or days (`7d`), at least [`MIN_RETENTION`].
fn retention(text: &str) -> Option<Duration> {
    const MAX_DIGITS: usize = 9;
    let digits = text.get(..text.len().checked_sub(1)?)?;
    let is_number = (1..=MAX_DIGITS).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let unit = match text.as_bytes().last()? {
        b's' => 1,
        b'm' => 60,
        b'h' => 3_600,
        b'd' => 86_400,
        _ => return None,
    };
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    Some(Duration::from_secs(number * unit)).filter(|time| *time >= MIN_RETENTION)
}

/// Reads an RFC 3339 timestamp. In a query, an unescaped `+` is a space.
fn time_in_query(text: &str) -> Result<DateTime<Utc>, Text> {
    time(text).map_err(|error| {
        let with_plus = text.replace(' ', "+");
        let is_unescaped = with_plus != text && time(&with_plus).is_ok();
        if is_unescaped { messages::PLUS_NOT_ESCAPED } else { error }
    })
}

/// Reads the name of an enum variant.
pub fn name<T: FromStr<Err = UnknownName>>(text: &str) -> Result<T, Text> {
    text.parse().map_err(|error: UnknownName| messages::one_of(error.expected))
}

/// Reads an integer in this range.
pub fn integer(value: &Value, least: i64, greatest: i64) -> Result<i64, Text> {
    let number = as_i64(value).filter(|number| (least..=greatest).contains(number));
    number.ok_or_else(|| messages::integer_range(least, greatest))
}

fn up_to(value: &Value, least: u32, greatest: u32) -> Result<u32, Text> {
    let number = integer(value, i64::from(least), i64::from(greatest))?;
    u32::try_from(number).map_err(|_| messages::integer_range(i64::from(least), i64::from(greatest)))
}

/// Reads a string in the way in which a query parameter of this kind is read.
fn of_text<T, K: ReadsText<T>>(value: &Value) -> Result<T, Text> {
    K::read_text(text(value)?)
}

fn per_second(value: &Value) -> Result<RedriveRate, Text> {
    let range = || messages::integer_range(1, i64::from(RedriveRate::MAX));
    as_i64(value).and_then(|number| RedriveRate::new(number.try_into().ok()?)).ok_or_else(range)
}

/// Converts the name of a Rust field, which may be a raw identifier, to its JSON name.
pub(crate) fn camel_case(name: &str) -> String {
    let mut words = name.trim_start_matches("r#").split('_');
    let mut json = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        json.push_str(&first.to_ascii_uppercase());
        json.push_str(rest);
    }
    json
}
