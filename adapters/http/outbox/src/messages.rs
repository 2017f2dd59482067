//! Messages of responses, in English and Chinese.

#![allow(missing_docs, reason = "a message is its own description")]

use std::borrow::Cow;

use handover_events::{AggregateRef, IdError, MAX_ID, TextError, TimeError};
use handover_outbox::operations::InvalidRedriveFilter;

use crate::language::Language;
use crate::value_limits::MAX_EVENT_ID_CHARS;

/// A message in English and Chinese.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    en: Cow<'static, str>,
    zh: Cow<'static, str>,
}

impl Text {
    /// A message without variable parts.
    pub const fn fixed(en: &'static str, zh: &'static str) -> Text {
        Text { en: Cow::Borrowed(en), zh: Cow::Borrowed(zh) }
    }

    /// A message with variable parts.
    pub fn new(en: impl ToString, zh: impl Into<Cow<'static, str>>) -> Text {
        Text { en: Cow::Owned(en.to_string()), zh: zh.into() }
    }

    /// The message in this language.
    pub fn in_language(&self, language: Language) -> &str {
        match language {
            Language::English => &self.en,
            Language::Chinese => &self.zh,
        }
    }
}

pub const BAD_TOKEN: Text = Text::fixed("the token is not valid or has expired", "登录凭证无效或已过期");
pub const WRONG_METHOD: Text =
    Text::fixed("this route does not support the request method", "不支持该请求方法");
pub const BODY_TIMEOUT: Text =
    Text::fixed("the body took too long to arrive; nothing was changed", "请求体传输超时，数据未变更");
pub const BODY_TOO_LARGE: Text = Text::fixed("the body is too large", "请求体过大");
pub const MALFORMED_REQUEST: Text = Text::fixed(
    "the request is not valid HTTP/1.1: check the request line and the headers",
    "请求不符合 HTTP/1.1：请检查请求行和请求头",
);
pub const URL_TOO_LONG: Text = Text::fixed("the URL is too long", "URL 过长");
pub const HEAD_TOO_LARGE: Text = Text::fixed("the URL and the headers are too large", "URL 与请求头过大");
pub const NOT_JSON_TYPE: Text =
    Text::fixed("the content type must be application/json", "Content-Type 必须是 application/json");
pub const ENCODED_BODY: Text = Text::fixed(
    "the body must not be encoded: send it without Content-Encoding",
    "不支持 Content-Encoding，请直接发送请求体",
);
pub const OVERLOADED: Text = Text::fixed(
    "the server is overloaded; nothing was changed; retry later",
    "服务繁忙，数据未变更，请稍后重试",
);
pub const NOTHING_BLOCKED: Text = Text::fixed(
    "failed events do not block later events in this service",
    "本服务中失败事件不会阻塞后续事件",
);
pub const FOR_ALL_TENANTS: Text =
    Text::fixed("only an operator of all tenants may do this", "仅限可访问所有租户的运维人员");
pub const ARCHIVE_UNAVAILABLE: Text = Text::fixed(
    "the storage of the archive is unavailable; no event is lost; retry later",
    "归档存储不可用，事件未丢失，请稍后重试",
);
pub const NO_ARCHIVE: Text = Text::fixed(
    "the archive is off: this process has no storage for it; give the same storage to every process",
    "归档未启用：本进程没有归档存储，请为所有进程配置同一存储",
);
pub const NOT_READY: Text = Text::fixed("not ready", "服务未就绪");

pub const REQUIRED: Text = Text::fixed("is required", "不能为空");
pub const UNKNOWN_FIELD: Text = Text::fixed("is not a field of this request", "未知字段");
pub const DUPLICATE: Text = Text::fixed("is given more than once", "重复出现");
pub const NOT_TEXT: Text = Text::fixed("must be a string", "必须是字符串");
pub const NOT_A_NUMBER: Text = Text::fixed("must be a number", "必须是数字");
pub const NOT_AN_OBJECT: Text = Text::fixed("must be a JSON object", "必须是 JSON 对象");
pub const NOT_READABLE: Text = Text::fixed(
    "cannot be read: it is nested too deeply, or contains an unpaired surrogate (\\u escape)",
    "无法读取：嵌套过深，或 \\u 转义不完整",
);
pub const READ_FAILED: Text = Text::fixed("could not be read", "读取失败");
pub const BAD_CURSOR: Text =
    Text::fixed("must be the nextCursor of an earlier page", "必须是上一页返回的 nextCursor");
pub const NOT_A_TIME: Text = Text::fixed(
    "must be an RFC 3339 time such as 2026-01-31T08:00:00Z",
    "必须是 RFC 3339 时间，例如 2026-01-31T08:00:00Z",
);
pub const TIME_OUT_OF_RANGE: Text =
    Text::fixed("must be in the years 1 to 9999 in UTC", "换算为 UTC 后必须在公元 1 年至 9999 年之间");
pub const PLUS_NOT_ESCAPED: Text = Text::fixed(
    "must be an RFC 3339 time; in a URL, write the + of its time zone as %2B, such as 2026-01-31T08:00:00%2B08:00",
    "必须是 RFC 3339 时间；URL 中时区的 + 须写成 %2B，例如 2026-01-31T08:00:00%2B08:00",
);
pub const BAD_PERCENT: Text = Text::fixed(
    "is not valid percent-encoded UTF-8: after % write two hexadecimal digits, and write % itself as %25",
    "不是有效的百分号编码（UTF-8）：% 之后须有两位十六进制数字，% 本身须写成 %25",
);
pub const NOT_AN_INTEGER: Text = Text::fixed("must be an integer", "必须是整数");

pub const NOT_A_BOOLEAN: Text = Text::fixed("must be true or false", "必须是 true 或 false");
pub const KEYS_OR_FILTER: Text =
    Text::fixed("exactly one of keys and filter is required", "keys 与 filter 必须且只能给出一个");
pub const IDS_OR_FILTER: Text =
    Text::fixed("exactly one of eventIds and filter is required", "eventIds 与 filter 必须且只能给出一个");
pub const QUEUE_WITH_FILTER: Text =
    Text::fixed("must be inside the filter, or be used with keys", "应放在 filter 中，或与 keys 一起使用");
pub const ID_OR_KEY: Text =
    Text::fixed("must not be combined with aggregateId", "不能与 aggregateId 同时使用");
pub const AGGREGATE_KEY: Text = Text::fixed(
    "must be 1 to 255 bytes without control characters and without blanks at its ends",
    "必须是 1 到 255 字节，不含控制字符，首尾不含空白",
);
pub const RESTORE_SELECTION: Text = Text::fixed(
    "exactly one of eventIds, aggregate, and from with to is required",
    "eventIds、aggregate、from 与 to 三者必须且只能给出一个",
);
pub const RETENTION_TIME: Text =
    Text::fixed("must be a time of at least 1h, such as 7d", "必须是不少于 1h 的时长，例如 7d");
pub const ARCHIVED_ALONE: Text = Text::fixed(
    "lists only archived events, all of which are SENT: use it without status and oldest",
    "仅列出已归档事件（状态均为 SENT）：请不传 status 与 oldest",
);
pub const EMPTY_FILTER: Text = Text::fixed("must have at least one field", "至少需要一个条件");

pub const UNMASKED_WITHOUT_FULL: Text =
    Text::fixed("must be given together with full = true", "必须与 full = true 一起使用");
pub const NO_TIME_RANGE: Text = Text::fixed("must be before until", "必须早于 until");

/// A value that the application refused; its reason is in English.
pub fn invalid(why: &str) -> Text {
    Text::new(why, format!("无效：{why}"))
}

pub fn archived(event: &str) -> Text {
    Text::new(
        format!(
            "the event {event} is in the archive; restore it first: `handover outbox restore --event {event}`"
        ),
        format!("事件 {event} 已归档，请先恢复：`handover outbox restore --event {event}`"),
    )
}

pub fn archived_aggregate(AggregateRef { tenant, kind, id }: &AggregateRef) -> Text {
    let restore = format!("`handover outbox restore --aggregate {kind} {id} --tenant {tenant}`");
    Text::new(
        format!("events of {kind} {id} match but are in the archive; restore them first: {restore}"),
        format!("{kind} {id} 的匹配事件已归档，请先恢复：{restore}"),
    )
}

pub const OLDEST_PUBLISHED: Text = Text::fixed(
    "lists only events that are not published: use it without `status`, or with NEW, RETRY or FAILED",
    "仅列出未发布的事件：请不传 status，或使用 NEW、RETRY、FAILED",
);

/// A filter has a name that nothing has.
pub fn unknown_name(nearest: &str) -> Text {
    let en = format!("is the name of nothing; the most similar name is {nearest:?}");
    Text::new(en, format!("不存在该名称，最接近的是 {nearest:?}"))
}

pub fn too_many_endpoints(max: u32) -> Text {
    Text::new(
        format!("the tenant has {max} webhook endpoints, the maximum; delete one that is not used"),
        format!("租户的 Webhook 端点已达上限 {max} 个，请先删除不再使用的端点"),
    )
}

pub fn integer_range(least: i64, greatest: i64) -> Text {
    Text::new(
        format!("must be an integer from {least} to {greatest}"),
        format!("必须是 {least} 到 {greatest} 的整数"),
    )
}

pub fn list(max: usize) -> Text {
    Text::new(format!("must be a list of 1 to {max} items"), format!("必须是 1 到 {max} 项的列表"))
}

/// The body is not JSON. Line and column are those of the parser; columns count bytes.
pub fn not_json(line: usize, column: usize) -> Text {
    Text::new(
        format!("is not valid JSON: line {line}, column {column}"),
        format!("不是合法的 JSON：第 {line} 行第 {column} 列"),
    )
}

pub fn repeated_header(name: &str) -> Text {
    Text::new(
        format!("the header {name} is given more than once: send it once"),
        format!("请求头 {name} 重复出现，请只发送一次"),
    )
}

pub fn one_of(names: &str) -> Text {
    Text::new(format!("must be one of {names}"), format!("必须是以下之一：{names}"))
}

pub fn visible_ascii(max: usize) -> Text {
    Text::new(
        format!("must be 1 to {max} visible ASCII characters"),
        format!("必须是 1 到 {max} 个可见 ASCII 字符"),
    )
}

pub fn not_found(what: &'static str) -> Text {
    let zh = match what {
        "tenant" => "租户不存在",
        "event" => "事件不存在",
        "blocked aggregate" => "没有这样的被阻塞聚合",
        "webhook endpoint" => "Webhook 端点不存在",
        "webhook delivery" => "Webhook 投递不存在",
        _ => "不存在",
    };
    Text::new(format!("no such {what}"), zh)
}

impl From<TextError> for Text {
    fn from(error: TextError) -> Text {
        Text::new(error, format!("必须是 1 到 {} 个字符，且不含控制字符", error.max))
    }
}

impl From<TimeError> for Text {
    fn from(error: TimeError) -> Text {
        match error {
            TimeError::Format => NOT_A_TIME,
            TimeError::OutOfRange => TIME_OUT_OF_RANGE,
        }
    }
}

impl From<IdError> for Text {
    fn from(error: IdError) -> Text {
        match error {
            IdError::OutOfRange => integer_range(1, MAX_ID),
            IdError::NotAnEventId => visible_ascii(MAX_EVENT_ID_CHARS),
        }
    }
}

impl From<InvalidRedriveFilter> for Text {
    fn from(error: InvalidRedriveFilter) -> Text {
        match error {
            InvalidRedriveFilter::Empty => EMPTY_FILTER,
            InvalidRedriveFilter::Pending => one_of("FAILED SENT"),
        }
    }
}
