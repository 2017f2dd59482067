//! The frozen texts (000 §15): they begin `last_error`, `error_message` and the log line, whatever the language.

/// An event that was applied already.
pub const DUPLICATE: &str = "事件已处理，忽略重复消息";
/// An event type that nobody here knows.
pub const UNSUPPORTED_TYPE: &str = "事件类型不支持";
/// A publish that did not end in a confirm.
pub const PUBLISH_FAILED: &str = "消息发送失败";
/// An attempt at an event that failed.
pub const CONSUME_FAILED: &str = "消息消费失败";
