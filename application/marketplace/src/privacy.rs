//! Masking of personal data: operators without the role `pii` do not see it.

use handover_outbox::MASK;

use crate::context::{CommandContext, Role};

/// Whether the caller may see personal data.
pub(crate) fn sees_personal_data(context: &CommandContext) -> bool {
    context.has(Role::Pii)
}

/// Returns free text of a user, masked if the caller may not see it.
pub(crate) fn masked_text(context: &CommandContext, text: String) -> String {
    if sees_personal_data(context) { text } else { MASK.to_owned() }
}
