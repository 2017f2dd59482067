//! Request bodies of the routes of webhooks.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::operations::Reason;
use handover_outbox::ports::BodyForm;
use handover_outbox::webhooks::{EndpointChange, MAX_PATTERNS, Recover};

use crate::fields::{Change, Fields, ReadField};
use crate::messages;
use crate::openapi::kinds;

// `max_items` below is the literal 64, because utoipa accepts only literals as limits of a list.
const _: () = assert!(MAX_PATTERNS == 64);

crate::bodies! {
    /// A webhook endpoint to create.
    #[schema(example = json!({ "url": "https://erp.example/hooks", "eventTypes": ["account.*"] }))]
    NewWebhook {
        /// URL that receives the events.
        url: String = kinds::WebhookUrl,
        /// Event types to receive, 1 to 64.
        #[schema(min_items = 1, max_items = 64)]
        event_types: Vec<String> = Vec<kinds::WebhookPattern>,
        /// Description.
        description: Option<String> = Option<kinds::WebhookDescription>,
        /// `true`: the events of an aggregate are sent in order; a failing one holds back the later ones.
        ordered: Option<bool> = Option<bool>,
        /// `true`: the whole payload is sent, with personal data masked; otherwise ids, states, amounts and times.
        full: Option<bool> = Option<bool>,
        /// With `full`: personal data is not masked; only for callers with the role `pii`.
        unmasked: Option<bool> = Option<bool>,
        /// `true`: requests also have an asymmetric signature (`v1a`, Ed25519).
        asymmetric: Option<bool> = Option<bool>,
        /// Greatest average number of attempts per second; default: no limit.
        per_second: Option<u32> = Option<kinds::AttemptsPerSecond>,
        /// Maximum number of concurrent attempts; default: 2.
        max_in_flight: Option<u32> = Option<kinds::MaxInFlight>,
        /// Static request headers.
        headers: Option<BTreeMap<String, String>> = Option<kinds::WebhookHeaders>,
        /// Tenant; default: the operator's own.
        tenant_id: Option<TenantId> = Option<kinds::Id>,
    }

    /// Changes of a webhook endpoint. A field that is absent keeps its value; null removes `description`, `perSecond` or
    /// `headers`.
    #[schema(example = json!({ "eventTypes": ["account.opened"], "perSecond": null }))]
    WebhookChange {
        /// URL that receives the events, also those that are waiting.
        url: Option<String> = Option<kinds::WebhookUrl>,
        /// Event types to receive, 1 to 64.
        #[schema(min_items = 1, max_items = 64)]
        event_types: Option<Vec<String>> = Option<Vec<kinds::WebhookPattern>>,
        /// Description.
        description: Change<String> = Option<kinds::WebhookDescription>,
        /// Whether the events of an aggregate are sent in order.
        ordered: Option<bool> = Option<bool>,
        /// Whether the whole payload is sent, with personal data masked unless `unmasked` is true.
        full: Option<bool> = Option<bool>,
        /// Whether personal data is not masked; only together with `full`.
        unmasked: Option<bool> = Option<bool>,
        /// Whether requests also have an asymmetric signature.
        asymmetric: Option<bool> = Option<bool>,
        /// Greatest average number of attempts per second.
        per_second: Change<u32> = Option<kinds::AttemptsPerSecond>,
        /// Maximum number of concurrent attempts.
        max_in_flight: Option<u32> = Option<kinds::MaxInFlight>,
        /// Static request headers; they replace all.
        headers: Change<BTreeMap<String, String>> = Option<kinds::WebhookHeaders>,
    }

    /// Disables a webhook endpoint.
    #[schema(example = json!({ "reason": "the receiver is being replaced" }))]
    DisableRequest {
        /// Reason; the endpoint shows it.
        reason: Option<Reason> = Option<kinds::OperatorReason>,
    }

    /// Replaces the secret of a webhook endpoint.
    #[schema(example = json!({ "overlapHours": 24 }))]
    RotateSecretRequest {
        /// Time for which requests are also signed with the previous secret; default: 24.
        overlap_hours: Option<u32> = Option<kinds::OverlapHours>,
    }

    /// Sends the example of an event type.
    #[schema(example = json!({ "type": "account.opened" }))]
    TestRequest {
        /// Event type.
        r#type: String = kinds::WebhookType,
    }

    /// The period whose deliveries are sent again; at most 10,000 per call.
    #[schema(example = json!({ "since": "2026-01-31T08:00:00Z", "includeMissing": true, "dryRun": true }))]
    RecoverRequest {
        /// Begin of the period (inclusive).
        since: DateTime<Utc> = kinds::Time,
        /// End of the period (exclusive); default: now.
        until: Option<DateTime<Utc>> = Option<kinds::Time>,
        /// `true`: events that the endpoint asks for and has no delivery of get one.
        include_missing: Option<bool> = Option<bool>,
        /// With `includeMissing`: `nextCursor` of an earlier call; this call continues where the earlier call ended.
        cursor: Option<i64> = Option<kinds::Cursor>,
        /// `true`: report what would be done without changing anything.
        dry_run: Option<bool> = Option<bool>,
    }
}

impl NewWebhook {
    /// The values of the endpoint, and its tenant.
    pub(crate) fn change(self, fields: &mut Fields) -> Option<(EndpointChange, Option<TenantId>)> {
        let unmasked = self.unmasked?;
        let change = EndpointChange {
            url: Some(self.url?),
            event_types: Some(self.event_types?),
            description: self.description?.map(Some),
            is_ordered: self.ordered?,
            body_form: body_form(self.full?.or(unmasked), unmasked, fields)?,
            signs_asymmetrically: self.asymmetric?,
            per_second: self.per_second?.map(Some),
            max_in_flight: self.max_in_flight?,
            headers: self.headers?,
        };
        Some((change, self.tenant_id?))
    }
}

impl WebhookChange {
    /// The new values.
    pub(crate) fn change(self, fields: &mut Fields) -> Option<EndpointChange> {
        Some(EndpointChange {
            url: self.url?,
            event_types: self.event_types?,
            description: self.description?.into_option(),
            is_ordered: self.ordered?,
            body_form: body_form(self.full?, self.unmasked?, fields)?,
            signs_asymmetrically: self.asymmetric?,
            per_second: self.per_second?.into_option(),
            max_in_flight: self.max_in_flight?,
            headers: self.headers?.into_option().map(Option::unwrap_or_default),
        })
    }
}

impl RecoverRequest {
    /// The command.
    pub(crate) fn command(self, fields: &mut Fields) -> Option<Recover> {
        let (since, until) = (self.since?, self.until?);
        if until.is_some_and(|until| since >= until) {
            return fields.reject("since", messages::NO_TIME_RANGE);
        }
        let include_missing = self.include_missing?.unwrap_or(false);
        let dry_run = self.dry_run?.unwrap_or(false);
        Some(Recover { since, until, include_missing, after: self.cursor?, dry_run })
    }
}

/// The form of the bodies. `unmasked` alone would not say whether the whole payload is sent.
fn body_form(full: Option<bool>, unmasked: Option<bool>, fields: &mut Fields) -> Option<Option<BodyForm>> {
    match (full, unmasked) {
        (None, None) => Some(None),
        (Some(false), None | Some(false)) => Some(Some(BodyForm::Thin)),
        (Some(true), None | Some(false)) => Some(Some(BodyForm::Full)),
        (Some(true), Some(true)) => Some(Some(BodyForm::Unmasked)),
        (None, Some(_)) | (Some(false), Some(true)) => {
            fields.reject("unmasked", messages::UNMASKED_WITHOUT_FULL)
        }
    }
}

impl ReadField<Option<BTreeMap<String, String>>> for Option<kinds::WebhookHeaders> {
    fn read(fields: &mut Fields, name: &str) -> Option<Option<BTreeMap<String, String>>> {
        fields.texts(name)
    }
}

impl ReadField<Change<BTreeMap<String, String>>> for Option<kinds::WebhookHeaders> {
    fn read(fields: &mut Fields, name: &str) -> Option<Change<BTreeMap<String, String>>> {
        let is_given = fields.is_given(name);
        Some(match fields.texts(name)? {
            Some(headers) => Change::Set(headers),
            None if is_given => Change::Remove,
            None => Change::Keep,
        })
    }
}
