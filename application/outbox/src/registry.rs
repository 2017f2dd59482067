//! What relay and consumers know of event types. A type that nobody registered is never sent.

use std::collections::{BTreeMap, BTreeSet};

use handover_events::Envelope;
use serde_json::Value;
use tracing::Span;

use crate::ports::UnorderedTypes;

/// One event type.
#[derive(Debug, Clone)]
pub struct EventSpec {
    name: String,
    routing_key: String,
    is_ordered: bool,
    subject: Option<Subject>,
    visible: BTreeSet<&'static str>,
    span: Option<fn(i64) -> Span>,
}

/// What every event of a type is about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    aggregate_type: &'static str,
    id_field: &'static str,
}

impl EventSpec {
    /// Events of this type are published with this routing key.
    pub fn new(name: impl Into<String>, routing_key: impl Into<String>) -> EventSpec {
        EventSpec {
            name: name.into(),
            routing_key: routing_key.into(),
            is_ordered: true,
            subject: None,
            visible: BTreeSet::new(),
            span: None,
        }
    }

    /// Events of this type have no place in the order of their aggregate: none waits for others or holds them back.
    pub fn unordered(self) -> EventSpec {
        EventSpec { is_ordered: false, ..self }
    }

    /// Every event of this type is about an aggregate of this type, whose id is also in this field of the payload. A row that
    /// says otherwise is never sent: no consumer could apply it.
    pub fn about(self, aggregate_type: &'static str, id_field: &'static str) -> EventSpec {
        EventSpec { subject: Some(Subject { aggregate_type, id_field }), ..self }
    }

    /// Fields of its payload that tell of no person, by their names wherever they stand: operators who do not see people see
    /// these alone, and of these only codes, numbers and times.
    pub fn visible(mut self, fields: &[&'static str]) -> EventSpec {
        self.visible.extend(fields);
        self
    }

    /// The span in which consumers log that an event of this type was applied, given the id of its aggregate: for fields of
    /// one's own in that line.
    pub fn logged_in(self, span: fn(i64) -> Span) -> EventSpec {
        EventSpec { span: Some(span), ..self }
    }

    /// Why this envelope cannot be an event of this type, if it cannot.
    fn check(&self, envelope: &Envelope) -> Result<(), String> {
        let Some(Subject { aggregate_type, id_field }) = self.subject else { return Ok(()) };
        let kind = &envelope.aggregate_type;
        if kind != aggregate_type {
            return Err(format!("the aggregate_type of {} is {aggregate_type}, not {kind}", self.name));
        }
        let id = envelope.aggregate_id;
        match envelope.payload.get(id_field).and_then(Value::as_i64) {
            Some(other) if other != id => {
                Err(format!("aggregate_id is {id}, and the payload's {id_field} is {other}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// The event types of one application, by name.
#[derive(Debug, Clone, Default)]
pub struct EventRegistry {
    specs: BTreeMap<String, EventSpec>,
    unordered: UnorderedTypes,
}

impl EventRegistry {
    /// The same registry with one more type. A name that is taken keeps its type.
    pub fn with(mut self, spec: EventSpec) -> EventRegistry {
        self.specs.entry(spec.name.clone()).or_insert(spec);
        let unordered = self.specs.values().filter(|spec| !spec.is_ordered);
        self.unordered = unordered.map(|spec| spec.name.clone()).collect();
        self
    }

    /// Whether events of this type can be sent.
    pub fn knows(&self, event_type: &str) -> bool {
        self.specs.contains_key(event_type)
    }

    /// The types that have no place in the order of their aggregate.
    pub fn unordered(&self) -> &UnorderedTypes {
        &self.unordered
    }

    /// The fields that any type declares as visible.
    pub(crate) fn visible(&self) -> BTreeSet<&str> {
        self.specs.values().flat_map(|spec| spec.visible.iter().copied()).collect()
    }

    /// The span in which a line about an event is logged.
    pub(crate) fn span(&self, event_type: &str, aggregate: i64) -> Span {
        let span = self.specs.get(event_type).and_then(|spec| spec.span);
        span.map_or_else(Span::none, |span| span(aggregate))
    }

    /// The key that an envelope is routed by; the error says why it can never be sent.
    pub(crate) fn routing_key(&self, envelope: &Envelope) -> Result<&str, String> {
        let event_type = &envelope.event_type;
        let spec = self.specs.get(event_type);
        let spec = spec.ok_or_else(|| format!("{}: {event_type}", crate::texts::UNSUPPORTED_TYPE))?;
        spec.check(envelope)?;
        Ok(&spec.routing_key)
    }
}
