//! Checks what operators enter about an endpoint.

use std::collections::BTreeMap;
use std::fmt;

use handover_events::{Json, TextError};

use super::offer::Offer;
use crate::operations::{OperationError, Operator, present_fields};
use crate::ports::{
    BodyForm, EndpointHeaders, EndpointId, SecretError, StoreError, WebhookEndpoint, WebhookTransport,
};
use crate::transaction::UnitError;

/// Maximum number of endpoints of a tenant.
pub const MAX_ENDPOINTS: u32 = 50;
/// Maximum number of patterns of an endpoint.
pub const MAX_PATTERNS: usize = 64;
/// Maximum length of a description.
pub const MAX_DESCRIPTION_CHARS: usize = 200;
/// Greatest limit of concurrent attempts.
pub const MAX_IN_FLIGHT: u32 = 64;
/// Limit of concurrent attempts if none is given.
pub const DEFAULT_IN_FLIGHT: u32 = 2;
/// Greatest limit of attempts per second.
pub const MAX_PER_SECOND: u32 = 10_000;
/// Maximum number of static headers of an endpoint.
pub const MAX_HEADERS: usize = 16;

/// Invalid value for an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {why}")]
pub struct InvalidEndpoint {
    /// Name of the field in JSON.
    pub field: &'static str,
    /// What is wrong with its value.
    pub why: String,
}

impl InvalidEndpoint {
    pub(super) fn new(field: &'static str, why: impl Into<String>) -> InvalidEndpoint {
        InvalidEndpoint { field, why: why.into() }
    }
}

/// Reason why an operation on webhooks failed.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// See [`OperationError`].
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// A value is invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidEndpoint),
    /// The tenant has the maximum number of endpoints.
    #[error("the tenant has {MAX_ENDPOINTS} endpoints, the maximum; delete one that is not used")]
    TooManyEndpoints,
    /// The secrets of an endpoint cannot be encrypted or decrypted.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

impl From<StoreError> for WebhookError {
    fn from(error: StoreError) -> WebhookError {
        WebhookError::Operation(OperationError::Store(error))
    }
}

impl UnitError for WebhookError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            WebhookError::Operation(error) => error.store_error(),
            WebhookError::Invalid(_) | WebhookError::TooManyEndpoints | WebhookError::Secret(_) => None,
        }
    }
}

/// New values of an endpoint. `None` keeps a value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EndpointChange {
    /// URL.
    pub url: Option<String>,
    /// Patterns of event types.
    pub event_types: Option<Vec<String>>,
    /// Description; an inner `None` removes it.
    pub description: Option<Option<String>>,
    /// See [`WebhookEndpoint::is_ordered`].
    pub is_ordered: Option<bool>,
    /// Whether the whole payload is sent: unmasked if the operator may see personal data and asks for it.
    pub body_form: Option<BodyForm>,
    /// See [`WebhookEndpoint::signs_asymmetrically`].
    pub signs_asymmetrically: Option<bool>,
    /// Attempts per second; an inner `None` removes the limit.
    pub per_second: Option<Option<u32>>,
    /// Concurrent attempts.
    pub max_in_flight: Option<u32>,
    /// Static headers by name; replaces all.
    pub headers: Option<BTreeMap<String, String>>,
}

impl fmt::Debug for EndpointChange {
    /// Shows the names of the headers only: their values can be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers = self.headers.as_ref().map(|headers| headers.keys().collect::<Vec<_>>());
        f.debug_struct("EndpointChange")
            .field("url", &self.url)
            .field("event_types", &self.event_types)
            .field("body_form", &self.body_form)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

impl EndpointChange {
    /// Checks the new values. Headers are encrypted for this endpoint.
    pub(super) fn check(
        self,
        offer: &Offer,
        transport: &dyn WebhookTransport,
        operator: &Operator,
        id: EndpointId,
    ) -> Result<CheckedChange, WebhookError> {
        if let Some(url) = &self.url {
            transport.check_url(url).map_err(|why| InvalidEndpoint::new("url", why))?;
        }
        if let Some(patterns) = &self.event_types {
            check_patterns(offer, patterns)?;
        }
        if let Some(Some(description)) = &self.description {
            TextError::check(description, MAX_DESCRIPTION_CHARS)
                .map_err(|error| InvalidEndpoint::new("description", error.to_string()))?;
        }
        if self.body_form == Some(BodyForm::Unmasked) && !operator.sees_personal_data {
            let why = "can be set only by an operator who may see personal data (pii)";
            return Err(InvalidEndpoint::new("unmasked", why).into());
        }
        if let Some(Some(limit)) = self.per_second
            && !(1..=MAX_PER_SECOND).contains(&limit)
        {
            return Err(InvalidEndpoint::new("perSecond", format!("must be 1 to {MAX_PER_SECOND}")).into());
        }
        if let Some(limit) = self.max_in_flight
            && !(1..=MAX_IN_FLIGHT).contains(&limit)
        {
            return Err(InvalidEndpoint::new("maxInFlight", format!("must be 1 to {MAX_IN_FLIGHT}")).into());
        }
        let headers = match &self.headers {
            None => None,
            Some(headers) if headers.is_empty() => Some(None),
            Some(headers) => Some(Some(sealed_headers(transport, id, headers)?)),
        };
        Ok(CheckedChange { change: EndpointChange { headers: None, ..self }, headers })
    }
}

fn check_patterns(offer: &Offer, patterns: &[String]) -> Result<(), InvalidEndpoint> {
    let invalid = |why: String| InvalidEndpoint::new("eventTypes", why);
    if !(1..=MAX_PATTERNS).contains(&patterns.len()) {
        return Err(invalid(format!("must have 1 to {MAX_PATTERNS} patterns")));
    }
    for pattern in patterns {
        offer.check_pattern(pattern).map_err(|error| invalid(format!("is invalid: {error}")))?;
    }
    Ok(())
}

fn sealed_headers(
    transport: &dyn WebhookTransport,
    id: EndpointId,
    headers: &BTreeMap<String, String>,
) -> Result<EndpointHeaders, WebhookError> {
    if headers.len() > MAX_HEADERS {
        return Err(
            InvalidEndpoint::new("headers", format!("must have at most {MAX_HEADERS} entries")).into()
        );
    }
    for (name, value) in headers {
        transport.check_header(name, value).map_err(|why| InvalidEndpoint::new("headers", why))?;
    }
    Ok(transport.seal_headers(id, headers)?)
}

/// A change whose values are valid.
#[derive(Debug, Clone)]
pub(super) struct CheckedChange {
    change: EndpointChange,
    /// An inner `None` removes the headers.
    headers: Option<Option<EndpointHeaders>>,
}

impl CheckedChange {
    /// The field that decides who gets the bodies that are stored, if the change has one.
    pub(super) fn redirecting_field(&self) -> Option<&'static str> {
        let fields = [("url", self.change.url.is_some()), ("headers", self.headers.is_some())];
        fields.into_iter().find_map(|(name, is_changed)| is_changed.then_some(name))
    }

    /// The field that decides who gets the bodies, or which, if the change has one.
    fn personal_data_field(&self) -> Option<&'static str> {
        let fields =
            [("eventTypes", self.change.event_types.is_some()), ("full", self.change.body_form.is_some())];
        let field = fields.into_iter().find_map(|(name, is_changed)| is_changed.then_some(name));
        self.redirecting_field().or(field)
    }

    /// The endpoint with the new values. An endpoint that gets personal data is not redirected by an operator who may not
    /// see it. Nor does such an operator change the form of its bodies: the consumer may be writing one in the form before
    /// the change, which a later change of the URL would redirect.
    pub(super) fn applied(
        &self,
        operator: &Operator,
        before: WebhookEndpoint,
    ) -> Result<WebhookEndpoint, InvalidEndpoint> {
        let change = &self.change;
        if before.body_form == BodyForm::Unmasked
            && !operator.sees_personal_data
            && let Some(field) = self.personal_data_field()
        {
            let why = "of an endpoint that gets unmasked payloads can be changed only by an operator who may see \
                       personal data (pii)";
            return Err(InvalidEndpoint::new(field, why));
        }
        Ok(WebhookEndpoint {
            url: change.url.clone().unwrap_or(before.url),
            event_types: change.event_types.clone().unwrap_or(before.event_types),
            description: change.description.clone().unwrap_or(before.description),
            is_ordered: change.is_ordered.unwrap_or(before.is_ordered),
            body_form: change.body_form.unwrap_or(before.body_form),
            signs_asymmetrically: change.signs_asymmetrically.unwrap_or(before.signs_asymmetrically),
            per_second: change.per_second.unwrap_or(before.per_second),
            max_in_flight: change.max_in_flight.unwrap_or(before.max_in_flight),
            headers: self.headers.clone().unwrap_or(before.headers),
            ..before
        })
    }

    /// The changed fields, for the audit log: of headers only that they changed.
    pub(super) fn fields(&self) -> Vec<(String, Json)> {
        let EndpointChange { url, event_types, description, is_ordered, body_form, .. } = &self.change;
        let list = |texts: &Vec<String>| texts.join(" ").into();
        let limit = |limit: &Option<u32>| limit.map_or(Json::Null, |limit| i64::from(limit).into());
        present_fields([
            ("url", url.as_deref().map(Into::into)),
            ("eventTypes", event_types.as_ref().map(list)),
            ("description", description.as_ref().map(|text| text.as_deref().unwrap_or_default().into())),
            ("ordered", is_ordered.map(Into::into)),
            ("body", body_form.map(|form| form.as_str().into())),
            ("asymmetric", self.change.signs_asymmetrically.map(Into::into)),
            ("perSecond", self.change.per_second.as_ref().map(limit)),
            ("maxInFlight", self.change.max_in_flight.map(|limit| i64::from(limit).into())),
            ("headers", self.headers.is_some().then(|| "changed".into())),
        ])
    }
}
