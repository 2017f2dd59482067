//! Required and optional fields of each event type, and its routing.

use std::collections::BTreeSet;

use handover_events::{Envelope, EnvelopeError, Json};
use marketplace_domain::{AggregateType, EventBody, EventKind};
use serde_json::{Value, json};

use crate::contract::{ORDER, ROWS};

/// The example of the contract. Its payload is incomplete.
const ENVELOPE: &str = include_str!("../golden/envelope.json");

fn missing(field: &str) -> EnvelopeError {
    EnvelopeError::Missing { field: format!("payload.{field}") }
}

#[test]
fn table_contains_every_event_type() {
    let listed: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
    assert_eq!(listed, EventKind::ALL.iter().map(|event_type| event_type.as_str()).collect());
}

#[test]
fn routing_key_and_aggregate_match_the_contract() {
    for row in ROWS {
        assert_eq!(row.event_type().routing_key(), row.routing_key, "{}", row.name);
        assert_eq!(row.event_type().aggregate(), row.aggregate, "{}", row.name);
    }
}

#[test]
fn only_the_event_type_order_timeout_is_unordered() {
    for event_type in EventKind::ALL {
        assert_eq!(event_type.is_ordered(), *event_type != EventKind::OrderTimeout, "{event_type}");
    }
}

#[test]
fn payload_round_trips_byte_for_byte() {
    for row in ROWS {
        let body = row.parse(row.payload()).unwrap();
        assert_eq!(body.event_type(), row.event_type());
        assert_eq!(body.to_json(), row.text(), "{}", row.name);
    }
}

#[test]
fn envelope_is_parsed_into_its_payload() {
    for row in ROWS {
        let envelope = row.envelope();
        let body = row.parse(row.payload()).unwrap();
        assert_eq!(envelope.aggregate_id, body.aggregate_id());
        assert_eq!(EventBody::of(&envelope), Ok(body), "{}", row.name);
    }
}

#[test]
fn missing_required_field_is_named_in_the_error() {
    for row in ROWS {
        for (field, _) in row.required() {
            // Without `invoiceId`, a payment or refund is parsed as that of an order, so the error names another field.
            if field == "invoiceId" && row.name != "INVOICE_GENERATED" {
                continue;
            }
            let mut absent = row.payload();
            absent.shift_remove(field);
            assert_eq!(row.parse(absent), Err(missing(field)), "{}: {field} absent", row.name);
            let mut null = row.payload();
            null.insert(field.into(), Value::Null);
            assert_eq!(row.parse(null), Err(missing(field)), "{}: {field} null", row.name);
        }
    }
}

#[test]
fn absent_optional_field_is_omitted_and_null_counts_as_absent() {
    for row in ROWS {
        for (field, _) in row.optional() {
            let mut absent = row.payload();
            absent.shift_remove(field);
            let mut null = row.payload();
            null.insert(field.into(), Value::Null);
            let body = row.parse(absent.clone()).unwrap();
            assert_eq!(body.to_json(), Value::Object(absent).to_string(), "{}: {field}", row.name);
            assert_eq!(row.parse(null), Ok(body), "{}: {field}", row.name);
        }
    }
}

#[test]
fn field_of_wrong_type_is_named_in_the_error() {
    for row in ROWS {
        for (field, kind) in row.fields() {
            for wrong in kind.illegal().iter().chain(&["true", "[]", "{}"]) {
                let mut payload = row.payload();
                payload.insert(field.into(), serde_json::from_str(wrong).unwrap());
                let refusal = row.parse(payload).unwrap_err();
                let path = format!("payload.{field}");
                let by_name = matches!(&refusal, EnvelopeError::WrongType { field, .. } if *field == path);
                assert!(by_name, "{}: {field} = {wrong}: {refusal}", row.name);
                assert!(refusal.to_string().starts_with(&format!("field `{path}` must be ")), "{refusal}");
            }
        }
    }
}

#[test]
fn unknown_fields_are_ignored_in_every_payload() {
    for row in ROWS {
        for extra in [json!(1), json!("x"), json!(null), json!({"orderId": "x"}), json!([])] {
            let mut payload = row.payload();
            payload.insert("later".into(), extra);
            assert_eq!(row.parse(payload), row.parse(row.payload()), "{}", row.name);
        }
    }
}

/// The envelope of every message is frozen: this test fails if a field is renamed, moved or written differently.
#[test]
fn envelope_of_the_contract_round_trips_byte_for_byte() {
    let envelope = Envelope::parse(ENVELOPE).unwrap();
    assert_eq!(serde_json::to_string_pretty(&envelope).unwrap() + "\n", ENVELOPE);
    assert_eq!(
        serde_json::from_value::<Envelope>(serde_json::from_str(ENVELOPE).unwrap()).unwrap(),
        envelope
    );
}

#[test]
fn payload_that_is_not_an_object_is_rejected() {
    for row in ROWS {
        for value in ["null", "5", r#""x""#, "[]", "true"] {
            let refusal = EventBody::parse(row.event_type(), &Json::parse(value).unwrap());
            assert!(matches!(refusal, Err(EnvelopeError::NotAnObject { .. })), "{}: {value}", row.name);
        }
    }
}

#[test]
fn envelope_with_wrong_aggregate_type_is_rejected() {
    for row in ROWS {
        let others = AggregateType::ALL.iter().map(|kind| kind.as_str()).chain(["order", "Coupon", ""]);
        for other in others.filter(|other| *other != row.aggregate) {
            let envelope = Envelope { aggregate_type: other.into(), ..row.envelope() };
            let refusal = EnvelopeError::Contradiction { field: "aggregateType".into(), other: "eventType" };
            assert_eq!(EventBody::of(&envelope), Err(refusal), "{} about {other:?}", row.name);
        }
    }
}

#[test]
fn envelope_whose_aggregate_id_differs_from_its_payload_is_rejected() {
    for row in ROWS {
        let right = row.envelope().aggregate_id.number();
        for other in [0, -1, right - 1, right + 1, i64::MIN, i64::MAX] {
            let envelope = Envelope { aggregate_id: other.into(), ..row.envelope() };
            let refusal = EnvelopeError::Contradiction { field: "aggregateId".into(), other: "payload" };
            assert_eq!(EventBody::of(&envelope), Err(refusal), "{} about {other}", row.name);
        }
    }
}

#[test]
fn payment_or_refund_for_both_order_and_invoice_is_rejected() {
    for row in ROWS.iter().filter(|row| ["Payment", "Refund"].contains(&row.aggregate)) {
        let both = |order: Value, invoice: Value| {
            let mut payload = row.payload();
            for (field, kind) in ORDER {
                payload.insert((*field).into(), serde_json::from_str(&kind.legal()).unwrap());
            }
            payload.insert("orderId".into(), order);
            payload.insert("invoiceId".into(), invoice);
            row.parse(payload)
        };
        let refusal =
            EnvelopeError::Contradiction { field: "payload.invoiceId".into(), other: "payload.orderId" };
        assert_eq!(both(json!(900_001), json!(400_001)), Err(refusal.clone()), "{}", row.name);
        assert_eq!(both(json!("x"), json!("x")), Err(refusal), "{}", row.name);
        // Null counts as absent.
        assert!(both(json!(900_001), json!(null)).is_ok(), "{}", row.name);
        assert!(both(json!(null), json!(400_001)).is_ok(), "{}", row.name);
        assert_eq!(both(json!(null), json!(null)), Err(missing("orderId")), "{}", row.name);
    }
}

#[test]
fn payload_of_unknown_event_type_is_rejected() {
    for name in ["ORDER_EXPLODED", "order_created", "ORDER_CREATED ", ""] {
        let mut envelope = Envelope::parse(ENVELOPE).unwrap();
        name.clone_into(&mut envelope.event_type);
        assert_eq!(EventBody::of(&envelope), Err(EnvelopeError::UnknownType { name: name.into() }));
    }
}

#[test]
fn contract_example_is_rejected_because_product_id_is_missing() {
    let refusal = EventBody::of(&Envelope::parse(ENVELOPE).unwrap()).unwrap_err();
    assert_eq!(refusal, EnvelopeError::Missing { field: "payload.productId".into() });
}
