//! Callbacks of the payment gateway, signed according to Standard Webhooks (`webhook-id`, `webhook-timestamp`,
//! `webhook-signature`).
//!
//! **Invariants:** the signature is verified over the received bytes before they are parsed. A callback with a valid
//! signature is recorded, even if its body cannot be read; it is refused only after it has been recorded.

use handover_http::fields::Fields;
use marketplace::ReportedName;
use marketplace_domain::{Reference, ReportKind};

use crate::body::{Report, SignedBody};
use crate::context::Gateway;
use crate::edge::Edge;
use crate::messages;
use crate::refusal::RouteError;

/// Maximum length of the recorded reason why a body is unreadable.
const MAX_ERROR_CHARS: usize = 500;
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
                edge.app.payments.record_unreadable_report(context, kind, hash, error).await?;
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
