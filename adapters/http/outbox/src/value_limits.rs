//! Limits of values in requests: the readers, their messages and the OpenAPI document use them. The types of
//! `handover-outbox` define the limits of their values as constants.

/// Page size if `limit` is absent.
pub const DEFAULT_LIMIT: u32 = 20;
/// Maximum page size.
pub const MAX_LIMIT: u32 = 100;
/// Maximum length of an event id.
pub const MAX_EVENT_ID_CHARS: usize = 64;
/// Maximum length of an event type.
pub const MAX_TYPE_CHARS: usize = 64;
/// Maximum length of the name of a queue (AMQP 0-9-1: a short string) or a consumer.
pub const MAX_QUEUE_CHARS: usize = 255;
/// Maximum length of a routing key (AMQP 0-9-1: a short string), by which webhook receivers know an event type.
pub const MAX_ROUTING_KEY_CHARS: usize = 255;
/// Maximum length of the URL of a webhook endpoint.
pub const MAX_URL_CHARS: usize = 2_048;
/// Maximum length of a dead letter's key: an event id, or a SHA-256 in hexadecimal.
pub const MAX_KEY_CHARS: usize = 64;
/// Maximum length of the name of a metric or an alert.
pub const MAX_METRIC_CHARS: usize = 128;
