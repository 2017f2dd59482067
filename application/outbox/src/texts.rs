//! Texts that reach the operators of an application.

use std::borrow::Cow;

/// Beginnings of the texts that the toolkit writes about failed events (`last_error`, `error_message`, and the reasons of
/// dead letters), and its log line about a duplicate. The default is English.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// Log line: a message of an event that was already applied is ignored.
    pub duplicate: Cow<'static, str>,
    /// The event type is not registered, or the consumer does not handle it. Continued with the type.
    pub unsupported_type: Cow<'static, str>,
    /// A publish was not confirmed. Continued with the reason.
    pub publish_failed: Cow<'static, str>,
    /// An attempt to apply the event failed. Continued with the reason, unless the reason begins with
    /// `unsupported_type`.
    pub consume_failed: Cow<'static, str>,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts {
            duplicate: "event already applied; duplicate message ignored".into(),
            unsupported_type: "event type not supported".into(),
            publish_failed: "publishing failed".into(),
            consume_failed: "consuming failed".into(),
        }
    }
}

impl Texts {
    pub(crate) fn unsupported_type(&self, event_type: &str) -> String {
        format!("{}: {event_type}", self.unsupported_type)
    }

    pub(crate) fn publish_failed(&self, why: &str) -> String {
        format!("{}: {why}", self.publish_failed)
    }

    pub(crate) fn consume_failed(&self, why: &str) -> String {
        if why.starts_with(self.unsupported_type.as_ref()) {
            why.to_owned()
        } else {
            format!("{}: {why}", self.consume_failed)
        }
    }
}
