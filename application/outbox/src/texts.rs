//! Texts fixed by document 000 §15. `last_error`, `error_message` and the log line begin with one of these texts, in every
//! language setting.

/// The event was already applied.
pub const DUPLICATE: &str = "事件已处理，忽略重复消息";
/// The event type is not registered, or the consumer does not handle it.
pub const UNSUPPORTED_TYPE: &str = "事件类型不支持";
/// A publish was not confirmed.
pub const PUBLISH_FAILED: &str = "消息发送失败";
/// An attempt to apply the event failed.
pub const CONSUME_FAILED: &str = "消息消费失败";
