//! Event types defined with `#[derive(Event)]`.

use chrono::{DateTime, Utc};
use handover_events::{
    EnvelopeError, Event, EventDescription, EventType, Keyed, Payload, integer_id, rfc3339,
};
use serde::Serialize;
use serde_json::json;

integer_id! {
    BookId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Payload)]
struct Reader {
    #[serde(rename = "readerName")]
    name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Event)]
#[event(name = "BOOK_LENT", aggregate = "Book", summary = "A book was lent", unordered)]
#[serde(rename_all = "camelCase")]
struct Lent {
    #[event(key, visible)]
    book_id: BookId,
    #[serde(flatten)]
    reader: Reader,
    #[event(visible)]
    #[serde(serialize_with = "rfc3339")]
    lent_at: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_in_days: Option<i64>,
}

/// An event with the same payload under another name.
#[derive(Debug, Clone, PartialEq, Serialize, Event)]
#[event(name = "BOOK_RESERVED", aggregate = "Book", routing_key = "book.reserved")]
#[serde(transparent)]
struct Reserved(Lent);

const TEXT: &str = r#"{"bookId":7,"readerName":"Ada","lentAt":"2026-02-04T10:30:00.000000Z","dueInDays":14}"#;

fn lent() -> Lent {
    Lent {
        book_id: BookId::try_from(7).unwrap(),
        reader: Reader { name: "Ada".to_owned() },
        lent_at: "2026-02-04T10:30:00Z".parse().unwrap(),
        due_in_days: Some(14),
    }
}

#[test]
fn derived_event_has_its_name_key_and_routing_key() {
    assert_eq!((Lent::NAME, Lent::AGGREGATE, Lent::ROUTING_KEY), ("BOOK_LENT", "Book", "BOOK_LENT"));
    assert_eq!((Lent::KEY_FIELD, lent().key().get(), Lent::IS_ORDERED), ("bookId", 7, false));
    assert_eq!((Reserved::ROUTING_KEY, Reserved::IS_ORDERED), ("book.reserved", true));
    assert_eq!((Reserved::KEY_FIELD, Reserved(lent()).key().get()), ("bookId", 7));
}

#[test]
fn payload_is_written_and_read_with_the_same_fields() {
    assert_eq!(serde_json::to_string(&lent()).unwrap(), TEXT);
    assert_eq!(serde_json::from_str::<Lent>(TEXT).unwrap(), lent());
    assert_eq!(serde_json::to_string(&Reserved(lent())).unwrap(), TEXT);
    assert_eq!(serde_json::from_str::<Reserved>(TEXT).unwrap(), Reserved(lent()));
}

#[test]
fn optional_field_may_be_absent_and_unknown_fields_are_ignored() {
    let older = TEXT.replace(",\"dueInDays\":14", ",\"shelf\":\"red\"");
    assert_eq!(serde_json::from_str::<Lent>(&older).unwrap(), Lent { due_in_days: None, ..lent() });
}

#[test]
fn error_names_the_first_wrong_field() {
    let error = |text: &str| serde_json::from_str::<Lent>(text).unwrap_err().to_string();
    let missing = EnvelopeError::Missing { field: "payload.readerName".to_owned() };
    assert!(error(r#"{"bookId":7}"#).starts_with(&missing.to_string()));
    let expected = "an integer from 1 to 9007199254740991";
    let wrong = EnvelopeError::WrongType { field: "payload.bookId".to_owned(), expected };
    assert!(error(r#"{"bookId":0}"#).starts_with(&wrong.to_string()));
}

#[test]
fn description_lists_visible_fields_and_schema() {
    let description = EventDescription::of::<Reserved>();
    assert_eq!(description.visible_fields(), ["bookId", "lentAt"]);
    let expected = json!({
        "type": "object",
        "required": ["bookId", "readerName", "lentAt"],
        "properties": {
            "bookId": { "type": "integer", "format": "int64", "minimum": 1, "maximum": 9_007_199_254_740_991_i64 },
            "readerName": { "type": "string" },
            "lentAt": { "type": "string", "format": "date-time" },
            "dueInDays": { "type": "integer", "format": "int64" },
        },
    });
    assert_eq!(description.schema(), expected);
}
