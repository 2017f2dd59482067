//! Registry of event types, used by relay and consumers. An event of an unregistered type is published only with the
//! routing key of its row.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use handover_events::{AggregateId, Envelope, EventDescription, EventType, Json};
use tracing::Span;

use crate::ports::{OutboxRow, UnorderedTypes};
use crate::texts::Texts;

/// Description of one event type.
#[derive(Debug, Clone)]
pub struct EventSpec {
    name: String,
    routing_key: String,
    is_ordered: bool,
    subject: Option<Subject>,
    visible: BTreeSet<String>,
    kept: BTreeSet<String>,
    closed: Vec<ClosedField>,
    span: Option<EventSpan>,
}

/// A function that creates the span of log lines about an event. The lines have the fields of the span.
#[derive(Debug, Clone, Copy)]
pub enum EventSpan {
    /// From the id of the aggregate.
    OfId(fn(&AggregateId) -> Span),
    /// From the id of the aggregate and the payload.
    OfPayload(fn(&AggregateId, &Json) -> Span),
}

/// Aggregate type of all events of one type, and the payload field that contains the aggregate's id.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    aggregate_type: String,
    id_field: String,
}

/// A payload field whose values are a closed set.
#[derive(Debug, Clone)]
pub(crate) struct ClosedField {
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
    /// Replacement for a value outside the set.
    pub(crate) mask: String,
}

impl EventSpec {
    /// An ordered event type that is published with this routing key.
    pub fn new(name: impl Into<String>, routing_key: impl Into<String>) -> EventSpec {
        EventSpec {
            name: name.into(),
            routing_key: routing_key.into(),
            is_ordered: true,
            subject: None,
            visible: BTreeSet::new(),
            kept: BTreeSet::new(),
            closed: Vec::new(),
            span: None,
        }
    }

    /// The event type of a payload with `#[derive(Event)]`: routing key, order, aggregate and visible fields.
    pub fn of<E: EventType>() -> EventSpec {
        let spec = EventSpec::new(E::NAME, E::ROUTING_KEY)
            .about(E::AGGREGATE, E::KEY_FIELD)
            .visible(&E::visible_fields());
        EventSpec { is_ordered: E::IS_ORDERED, ..spec }
    }

    /// An event type with this description: routing key, order, aggregate and visible fields.
    pub fn described(description: &EventDescription) -> EventSpec {
        let EventDescription { name, aggregate, key_field, routing_key, is_ordered, .. } = *description;
        let spec = EventSpec::new(name, routing_key)
            .about(aggregate, key_field)
            .visible(&description.visible_fields());
        EventSpec { is_ordered, ..spec }
    }

    /// Sets the routing key.
    pub fn routed(self, routing_key: impl Into<String>) -> EventSpec {
        EventSpec { routing_key: routing_key.into(), ..self }
    }

    /// Marks events of this type as not ordered within their aggregate: such an event neither waits for other events
    /// nor blocks them.
    pub fn unordered(self) -> EventSpec {
        EventSpec { is_ordered: false, ..self }
    }

    /// Declares the aggregate type and the payload field that repeats the aggregate's id. A row that contradicts this
    /// declaration is never published: no consumer could apply its event.
    pub fn about(self, aggregate_type: impl Into<String>, id_field: impl Into<String>) -> EventSpec {
        let subject = Subject { aggregate_type: aggregate_type.into(), id_field: id_field.into() };
        EventSpec { subject: Some(subject), ..self }
    }

    /// Declares payload fields, by name at any depth, that contain no personal data. Operators without access to
    /// personal data see only these fields, and of these only codes, numbers and times.
    pub fn visible(mut self, fields: &[&str]) -> EventSpec {
        self.visible.extend(fields.iter().map(|field| (*field).to_owned()));
        self
    }

    /// Declares payload fields, by name at any depth, that an erasure leaves although they are not visible: ids of persons,
    /// without which the payload could not be read any more.
    pub fn kept(mut self, fields: &[&str]) -> EventSpec {
        self.kept.extend(fields.iter().map(|field| (*field).to_owned()));
        self
    }

    /// Declares a payload field, by name at any depth, whose value is one of `values` or null. Rows that were stored
    /// before the set was closed can contain another value, such as personal data: it is replaced by `mask` in every
    /// message, dead letter and view of the event, also for operators with access to personal data. The stored row does
    /// not change. During a rolling deployment a later version may have another set: a consumer does not compare the value in
    /// the message with that in the row.
    pub fn closed(mut self, field: impl Into<String>, values: &[&str], mask: impl Into<String>) -> EventSpec {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        self.closed.push(ClosedField { name: field.into(), values, mask: mask.into() });
        self
    }

    /// Sets the function that creates a span from the aggregate's id. Lines about events of this type are logged in this
    /// span, so they have its fields.
    pub fn logged_in(self, span: fn(&AggregateId) -> Span) -> EventSpec {
        self.logged_in_span(EventSpan::OfId(span))
    }

    /// As [`EventSpec::logged_in`], with a span that may also depend on the payload.
    pub fn logged_in_span(self, span: EventSpan) -> EventSpec {
        EventSpec { span: Some(span), ..self }
    }

    /// Checks that an event of this type has the declared aggregate type, and that its payload repeats the aggregate's id.
    /// The error says why the event can never be published.
    pub fn check(
        &self,
        aggregate_type: &str,
        aggregate_id: &AggregateId,
        payload: &Json,
    ) -> Result<(), String> {
        let Some(subject) = &self.subject else { return Ok(()) };
        if aggregate_type != subject.aggregate_type {
            let required = &subject.aggregate_type;
            return Err(format!("aggregate_type is {aggregate_type}, but {} requires {required}", self.name));
        }
        let id_field = &subject.id_field;
        let Some(field) = payload.get(id_field) else { return Ok(()) };
        let differs = match (field.as_i64(), field.as_str()) {
            (Some(number), _) => *aggregate_id != number,
            (None, Some(text)) => aggregate_id.key().is_some_and(|key| key != text),
            (None, None) => false,
        };
        if differs {
            return Err(format!("aggregate_id is {aggregate_id}, but the payload's {id_field} is {field}"));
        }
        Ok(())
    }
}

/// Event types of one application, by name.
#[derive(Debug, Clone, Default)]
pub struct EventRegistry {
    specs: BTreeMap<String, EventSpec>,
    unordered: UnorderedTypes,
}

impl EventRegistry {
    /// Adds a type. A name that is already registered keeps its first registration.
    pub fn with(mut self, spec: EventSpec) -> EventRegistry {
        self.specs.entry(spec.name.clone()).or_insert(spec);
        let unordered = self.specs.values().filter(|spec| !spec.is_ordered);
        self.unordered = unordered.map(|spec| spec.name.clone()).collect();
        self
    }

    /// Whether this type is registered.
    pub fn contains(&self, event_type: &str) -> bool {
        self.specs.contains_key(event_type)
    }

    /// Name, routing key and order of each type, ordered by name.
    pub(crate) fn types(&self) -> impl Iterator<Item = (&str, &str, bool)> + Clone {
        self.specs.values().map(|spec| (spec.name.as_str(), spec.routing_key.as_str(), spec.is_ordered))
    }

    /// Aggregate types about which the registered types are.
    pub(crate) fn aggregate_types(&self) -> impl Iterator<Item = &str> + Clone {
        let subjects = self.specs.values().filter_map(|spec| spec.subject.as_ref());
        subjects.map(|subject| subject.aggregate_type.as_str())
    }

    /// Name and aggregate type of each registered type that declares one.
    pub(crate) fn aggregate_types_by_event(&self) -> impl Iterator<Item = (&str, &str)> {
        self.specs.values().filter_map(|spec| {
            let subject = spec.subject.as_ref()?;
            Some((spec.name.as_str(), subject.aggregate_type.as_str()))
        })
    }

    /// Checks an event of a registered type ([`EventSpec::check`]).
    pub(crate) fn check(&self, envelope: &Envelope) -> Result<(), String> {
        let Some(spec) = self.specs.get(&envelope.event_type) else { return Ok(()) };
        spec.check(&envelope.aggregate_type, &envelope.aggregate_id, &envelope.payload)
    }

    /// Routing key with which this type is registered; for [`NewEvent::routing_key`](crate::ports::NewEvent).
    pub fn routing_key(&self, event_type: &str) -> Option<&str> {
        self.specs.get(event_type).map(|spec| spec.routing_key.as_str())
    }

    /// Types whose events are not ordered within their aggregate.
    pub fn unordered(&self) -> &UnorderedTypes {
        &self.unordered
    }

    /// Fields that at least one registered type declares as visible.
    pub(crate) fn visible(&self) -> BTreeSet<&str> {
        self.specs.values().flat_map(|spec| spec.visible.iter().map(String::as_str)).collect()
    }

    /// Fields that an erasure leaves: those that at least one registered type declares as kept or closed, whose other values
    /// are replaced, and the ids of aggregates.
    pub(crate) fn kept(&self) -> BTreeSet<&str> {
        let mut kept = BTreeSet::new();
        for spec in self.specs.values() {
            kept.extend(spec.kept.iter().map(String::as_str));
            kept.extend(spec.closed.iter().map(|field| field.name.as_str()));
            kept.extend(spec.subject.iter().map(|subject| subject.id_field.as_str()));
        }
        kept
    }

    /// Replaces values outside the set of a closed field. `event_type` is the type of the event; for an unregistered or
    /// unknown type, the closed fields of all types are replaced. Returns whether the JSON has changed.
    pub(crate) fn close_fields(&self, event_type: Option<&str>, json: &mut Json) -> bool {
        replace_values(json, &self.closed_fields(event_type), is_in_set)
    }

    /// Whether two payloads of an event are equal except for the values of closed fields.
    pub(crate) fn are_equal_except_closed(&self, event_type: &str, one: &Json, other: &Json) -> bool {
        let closed = self.closed_fields(Some(event_type));
        let masked = |payload: &Json| {
            let mut payload = payload.clone();
            replace_values(&mut payload, &closed, |_, _| false);
            payload
        };
        !closed.is_empty() && masked(one) == masked(other)
    }

    /// Whether events of this type have closed fields.
    pub(crate) fn has_closed_fields(&self, event_type: &str) -> bool {
        !self.closed_fields(Some(event_type)).is_empty()
    }

    fn closed_fields(&self, event_type: Option<&str>) -> Vec<&ClosedField> {
        match event_type.and_then(|name| self.specs.get(name)) {
            Some(spec) => spec.closed.iter().collect(),
            None => self.specs.values().flat_map(|spec| &spec.closed).collect(),
        }
    }

    /// As [`EventRegistry::close_fields`], for a text. A text that is not JSON is returned unchanged.
    pub(crate) fn with_closed_fields<'t>(&self, event_type: Option<&str>, json: &'t str) -> Cow<'t, str> {
        let mut value = match Json::parse(json) {
            Ok(value) => value,
            Err(_) => return Cow::Borrowed(json),
        };
        if self.close_fields(event_type, &mut value) {
            Cow::Owned(value.to_string())
        } else {
            Cow::Borrowed(json)
        }
    }

    /// Span for log lines about events of this type.
    pub(crate) fn span(&self, event_type: &str) -> Option<EventSpan> {
        self.specs.get(event_type).and_then(|spec| spec.span)
    }

    /// Routing key with which a row is published; the envelope is that of the row. The error says why the event can never
    /// be published.
    ///
    /// The key of the row is used, because the process that wrote the row has declared the bindings for it. After a
    /// counted failure, the key with which the type is registered is used: the key of the row may be the error that a
    /// later version of the program corrects. The content of an event of an unregistered type is not checked.
    pub(crate) fn publishing_key<'k>(
        &'k self,
        row: &'k OutboxRow,
        envelope: &Envelope,
        texts: &Texts,
    ) -> Result<&'k str, String> {
        if let Some(spec) = self.specs.get(&row.event_type) {
            spec.check(&envelope.aggregate_type, &envelope.aggregate_id, &envelope.payload)?;
        }
        self.key_of(row).ok_or_else(|| texts.unsupported_type(&row.event_type))
    }

    /// As [`EventRegistry::publishing_key`], without a check of the content. `None`: the type is not registered, and the row
    /// has no key.
    pub(crate) fn key_of<'k>(&'k self, row: &'k OutboxRow) -> Option<&'k str> {
        let stored = row.routing_key.as_deref();
        match self.specs.get(&row.event_type) {
            Some(spec) => Some(stored.filter(|_| row.retry_count == 0).unwrap_or(&spec.routing_key)),
            None => stored,
        }
    }
}

/// Replaces the values of these fields that are not kept; returns whether there was one.
fn replace_values(
    json: &mut Json,
    closed: &[&ClosedField],
    is_kept: fn(&ClosedField, &Json) -> bool,
) -> bool {
    if closed.is_empty() {
        return false;
    }
    let mut changed = false;
    match json {
        Json::Object(fields) => {
            for (name, value) in fields {
                let field = closed.iter().find(|field| field.name == *name);
                match field {
                    Some(field) if !is_kept(field, value) => {
                        *value = field.mask.as_str().into();
                        changed = true;
                    }
                    Some(_) => {}
                    None => changed |= replace_values(value, closed, is_kept),
                }
            }
        }
        Json::Array(items) => {
            for item in items {
                changed |= replace_values(item, closed, is_kept);
            }
        }
        Json::String(_) | Json::Number(_) | Json::Bool(_) | Json::Null => {}
    }
    changed
}

fn is_in_set(field: &ClosedField, value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(text) => field.mask == *text || field.values.contains(text),
        Json::Number(_) | Json::Bool(_) | Json::Array(_) | Json::Object(_) => false,
    }
}
