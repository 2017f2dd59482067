//! Masking of personal data: operators without the role `pii` do not see it, and stored responses lose it when a user is erased.

use handover_events::Json;
use handover_outbox::MASK;
use marketplace_domain::{Refund, RefundCause};

use crate::context::{CommandContext, Role};

/// Fields of responses that contain texts of persons, or about them.
const TEXTS: [&str; 8] =
    ["title", "carrier", "trackingNo", "reason", "note", "detail", "lastError", "closeReason"];

/// Whether the caller may see personal data.
pub(crate) fn sees_personal_data(context: &CommandContext) -> bool {
    context.has(Role::Pii)
}

/// Masks the reason of a refund that an operator wrote: it is for other operators.
pub(crate) fn mask_operators_reason(refund: &mut Refund) {
    if refund.cause == RefundCause::Operator {
        refund.reason = MASK.to_owned();
    }
}

/// Masks the reason of a refund that a user wrote, if the caller may not see it.
pub(crate) fn mask_reason(context: &CommandContext, refund: &mut Refund) {
    if refund.cause.is_of_party() && !sees_personal_data(context) {
        refund.reason = MASK.to_owned();
    }
}

/// Masks the texts of persons in a response. Returns whether there was one.
pub(crate) fn masked_response(json: &mut Json) -> bool {
    match json {
        Json::Object(fields) => {
            let mut changed = false;
            for (name, value) in fields {
                if let (true, Json::String(text)) = (TEXTS.contains(&name.as_str()), &mut *value) {
                    changed |= text != MASK;
                    MASK.clone_into(text);
                } else {
                    changed |= masked_response(value);
                }
            }
            changed
        }
        Json::Array(items) => items.iter_mut().fold(false, |changed, item| masked_response(item) | changed),
        Json::String(_) | Json::Number(_) | Json::Bool(_) | Json::Null => false,
    }
}
