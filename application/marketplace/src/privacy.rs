//! Masking of personal data: operators without the role `pii` do not see it.

use handover_outbox::MASK;
use marketplace_domain::{Refund, RefundCause};

use crate::context::{CommandContext, Role};

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
