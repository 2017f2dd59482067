//! Masking of personal data: operators without the role `pii` do not see it.

use handover_outbox::MASK;
use marketplace_domain::Refund;

use crate::context::{CommandContext, Role};

/// Whether the caller may see personal data.
pub(crate) fn sees_personal_data(context: &CommandContext) -> bool {
    context.has(Role::Pii)
}

/// Returns free text of a user, masked if the caller may not see it.
pub(crate) fn masked_text(context: &CommandContext, text: String) -> String {
    if sees_personal_data(context) { text } else { MASK.to_owned() }
}

/// Masks the reason of a refund that a user wrote, if the caller may not see it.
pub(crate) fn mask_reason(context: &CommandContext, refund: &mut Refund) {
    if refund.cause.is_of_party() && !sees_personal_data(context) {
        refund.reason = MASK.to_owned();
    }
}
