//! Callbacks of the payment gateway, signed according to Standard Webhooks (`webhook-id`, `webhook-timestamp`,
//! `webhook-signature`).
//!
//! **Invariants:** the signature is verified over the received bytes before they are parsed. A callback with a valid
//! signature is recorded, even if its body cannot be read; it is refused only after it has been recorded.

use std::sync::{Arc, PoisonError, RwLock};

use axum::http::HeaderMap;
use handover_http::envelope::Code;
use handover_http::fields::{Body, Fields};
use handover_http::refusal::Refusal;
use marketplace::ReportedName;
use marketplace::use_cases::operations::record_unreadable_report;
use marketplace_domain::{Reference, ReportKind};
use standardwebhooks::Webhook;

use crate::body::SignedBody;
use crate::context::Gateway;
use crate::edge::Edge;
use crate::messages;
use crate::refusal::RouteError;

/// A report of the gateway: a body in which unknown fields are ignored, because gateways add fields.
pub(crate) trait Report: Body {
    /// The Rust names of its fields.
    const FIELDS: &'static [&'static str];
}

/// Maximum length of the recorded reason why a body is unreadable.
const MAX_ERROR_CHARS: usize = 500;
/// The headers of a signed request.
const SIGNATURE_HEADERS: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

/// The secret is not `whsec_` followed by 24 to 64 bytes in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gateway's secret must be whsec_ followed by 24 to 64 bytes in base64")]
pub struct InvalidSecret;

/// Verifies callbacks with the current secret or the previous one. Clones share the secrets. A timestamp may differ from the system clock by at most five minutes; the crate
/// `standardwebhooks` accepts no other clock.
#[derive(Clone)]
pub struct CallbackVerifier {
    webhooks: Arc<RwLock<Vec<Webhook>>>,
}

impl CallbackVerifier {
    /// Creates a verifier for the secret `whsec_...`.
    pub fn new(secret: &str) -> Result<CallbackVerifier, InvalidSecret> {
        Ok(CallbackVerifier { webhooks: Arc::new(RwLock::new(webhooks(secret, None)?)) })
    }

    /// Replaces the secrets, in all clones. Callbacks that are signed with `previous` are accepted too.
    pub fn replace(&self, secret: &str, previous: Option<&str>) -> Result<(), InvalidSecret> {
        let webhooks = webhooks(secret, previous)?;
        *self.webhooks.write().unwrap_or_else(PoisonError::into_inner) = webhooks;
        Ok(())
    }

    /// Verifies the signature and its timestamp.
    pub(crate) fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Refusal> {
        // The library reads the first value only.
        let repeated = SIGNATURE_HEADERS.into_iter().find(|name| headers.get_all(*name).iter().count() > 1);
        if let Some(name) = repeated {
            tracing::warn!(header = name, "callback: repeated header; rejected");
            return Err(Refusal::new(Code::NOT_AUTHENTICATED, messages::repeated_header(name)));
        }
        let webhooks = self.webhooks.read().unwrap_or_else(PoisonError::into_inner);
        let mut refusal = None;
        for webhook in webhooks.iter() {
            match webhook.verify(body, headers) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            }
        }
        let error = refusal.map(|error| error.to_string());
        tracing::warn!(error, "callback: signature rejected");
        Err(Refusal::new(Code::NOT_AUTHENTICATED, messages::BAD_SIGNATURE))
    }
}

impl<B: Report> SignedBody<B> {
    /// Builds a command like [`Parsed::command`](handover_http::fields::Parsed::command). A body that cannot be read is recorded, then refused; if the
    /// record cannot be written, the refusal says so, and the gateway repeats its report.
    pub(crate) async fn command<C>(
        self,
        Gateway(edge, context): &Gateway,
        kind: ReportKind,
        build: impl FnOnce(B, &mut Fields) -> Option<C>,
    ) -> Result<C, RouteError> {
        let SignedBody { body, hash } = self;
        match body.and_then(|body| body.command(build)) {
            Ok(command) => Ok(command),
            Err(refusal) => {
                let error = storable(&refusal.reason());
                record_unreadable_report(&edge.app, context, kind, hash, error).await?;
                Err(refusal.into())
            }
        }
    }
}

/// The reason may contain names of parameters as they were sent. PostgreSQL cannot store every control character.
fn storable(reason: &str) -> String {
    let plain = reason.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(MAX_ERROR_CHARS).collect()
}

/// Checks that a report names its payment or refund: by reference, or by the id in field `id_name`, if that is accepted.
pub(crate) fn reported_name<I>(
    edge: &Edge,
    reference: Option<Reference>,
    id: Option<I>,
    id_name: &str,
    fields: &mut Fields,
) -> Option<ReportedName<I>> {
    match (reference, id) {
        (None, _) if edge.requires_reference => fields.reject("reference", messages::REQUIRED),
        (None, None) => {
            fields.reject::<()>("reference", messages::required_without(id_name));
            fields.reject(id_name, messages::required_without("reference"))
        }
        (reference, id) => Some(ReportedName { reference, id }),
    }
}

fn webhooks(secret: &str, previous: Option<&str>) -> Result<Vec<Webhook>, InvalidSecret> {
    [secret].into_iter().chain(previous).map(webhook).collect()
}

fn webhook(secret: &str) -> Result<Webhook, InvalidSecret> {
    let base64 = secret.strip_prefix("whsec_").ok_or(InvalidSecret)?;
    let bytes = base64.trim_end_matches('=').len() * 3 / 4;
    if !(24..=64).contains(&bytes) {
        return Err(InvalidSecret);
    }
    Webhook::new(secret).map_err(|_| InvalidSecret)
}
