//! The texts of the toolkit in the language of the marketplace, fixed by its specification: `last_error`, `error_message`
//! and the log line about a duplicate begin with them in every language setting.

use handover_outbox::Texts;

/// The event type is not registered, or the consumer does not handle it.
pub(crate) const UNSUPPORTED_TYPE: &str = "事件类型不支持";

pub(crate) fn texts() -> Texts {
    Texts {
        duplicate: "事件已处理，忽略重复消息".into(),
        unsupported_type: UNSUPPORTED_TYPE.into(),
        publish_failed: "消息发送失败".into(),
        consume_failed: "消息消费失败".into(),
    }
}
