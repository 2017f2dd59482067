//! Messages of responses, in English and Chinese. The domain has the English messages of its own rules; their Chinese
//! translations are here.

mod refusals;

use std::borrow::Cow;

use handover_events::{IdError, MAX_ID, TextError};
use handover_outbox::operations::InvalidRedriveFilter;
use marketplace_domain::{Asset, MoneyError};

use crate::language::Language;
use crate::value_limits::MAX_EVENT_ID_CHARS;

/// A message in English and Chinese.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    en: Cow<'static, str>,
    zh: Cow<'static, str>,
}

impl Text {
    pub(crate) const fn fixed(en: &'static str, zh: &'static str) -> Text {
        Text { en: Cow::Borrowed(en), zh: Cow::Borrowed(zh) }
    }

    pub(crate) fn new(en: impl ToString, zh: impl Into<Cow<'static, str>>) -> Text {
        Text { en: Cow::Owned(en.to_string()), zh: zh.into() }
    }

    pub(crate) fn in_language(&self, language: Language) -> &str {
        match language {
            Language::English => &self.en,
            Language::Chinese => &self.zh,
        }
    }
}

pub(crate) const DONE: Text = Text::fixed("done", "成功");
pub(crate) const INVALID: Text = Text::fixed("the input is not valid", "请求参数不正确");
pub(crate) const NOT_AUTHENTICATED: Text =
    Text::fixed("authentication required: send a bearer token", "请先登录");
pub(crate) const BAD_TOKEN: Text =
    Text::fixed("the token is not valid or has expired", "登录凭证无效或已过期");
pub(crate) const BAD_SIGNATURE: Text =
    Text::fixed("the signature is missing, invalid or too old", "签名缺失、错误或已过期");
pub(crate) const NOT_ALLOWED: Text = Text::fixed("permission denied", "没有权限");
pub(crate) const NO_ROUTE: Text = Text::fixed("no such route", "请求的地址不存在");
pub(crate) const WRONG_METHOD: Text =
    Text::fixed("this route does not support the request method", "不支持该请求方法");
pub(crate) const BODY_TIMEOUT: Text =
    Text::fixed("the body took too long to arrive; nothing was changed", "请求体传输超时，数据未变更");
pub(crate) const BODY_TOO_LARGE: Text = Text::fixed("the body is too large", "请求体过大");
pub(crate) const MALFORMED_REQUEST: Text = Text::fixed(
    "the request is not valid HTTP/1.1: check the request line and the headers",
    "请求不符合 HTTP/1.1：请检查请求行和请求头",
);
pub(crate) const URL_TOO_LONG: Text = Text::fixed("the URL is too long", "URL 过长");
pub(crate) const HEAD_TOO_LARGE: Text =
    Text::fixed("the URL and the headers are too large", "URL 与请求头过大");
pub(crate) const NOT_JSON_TYPE: Text =
    Text::fixed("the content type must be application/json", "Content-Type 必须是 application/json");
pub(crate) const ENCODED_BODY: Text = Text::fixed(
    "the body must not be encoded: send it without Content-Encoding",
    "不支持 Content-Encoding，请直接发送请求体",
);
pub(crate) const CONFLICT: Text =
    Text::fixed("the data was changed by a concurrent request; retry", "数据已被他人修改，请重试");
pub(crate) const INTERNAL_ERROR: Text =
    Text::fixed("internal error; report it with its trace id", "系统内部错误，请提供 traceId");
pub(crate) const UNAVAILABLE: Text = Text::fixed(
    "a required service is unavailable; nothing was changed; retry later",
    "依赖的服务暂不可用，数据未变更，请稍后重试",
);
pub(crate) const OVERLOADED: Text = Text::fixed(
    "the server is overloaded; nothing was changed; retry later",
    "服务繁忙，数据未变更，请稍后重试",
);
pub(crate) const KEY_STORE_UNAVAILABLE: Text = Text::fixed(
    "the store of idempotency keys is unavailable; nothing was done: retry later with the same key, or send the request without a key",
    "幂等键暂不可用，操作未执行：请稍后使用相同的幂等键重试，或不带幂等键发送",
);
pub(crate) const OUTCOME_UNKNOWN: Text = Text::fixed(
    "the outcome is unknown: the request may still complete; repeat it with the same idempotency key",
    "结果未知，请求可能仍会完成：请使用相同的幂等键重试",
);
pub(crate) const NOTHING_BLOCKED: Text = Text::fixed(
    "no failed event blocks later events: outbox.on-failed is continue",
    "没有被阻塞的事件：outbox.on-failed 为 continue",
);
pub(crate) const NOT_LOCKED_YET: Text = Text::fixed(
    "the assets of the order are still being locked; nothing was changed; retry later",
    "订单的资产正在锁定，数据未变更，请稍后重试",
);
pub(crate) const KEY_REUSED: Text =
    Text::fixed("the idempotency key was used for another request", "该幂等键已用于其他请求");
pub(crate) const IN_PROGRESS: Text =
    Text::fixed("the same request is being processed; retry to get its response", "请求处理中,请勿重复提交");
pub(crate) const RATE_LIMITED: Text =
    Text::fixed("too many requests; retry after the time in Retry-After", "请求过于频繁...");
pub(crate) const NOT_READY: Text = Text::fixed("not ready", "服务未就绪");

pub(crate) const REQUIRED: Text = Text::fixed("is required", "不能为空");
pub(crate) const UNKNOWN_FIELD: Text = Text::fixed("is not a field of this request", "未知字段");
pub(crate) const DUPLICATE: Text = Text::fixed("is given more than once", "重复出现");
pub(crate) const NOT_TEXT: Text = Text::fixed("must be a string", "必须是字符串");
pub(crate) const NOT_A_NUMBER: Text = Text::fixed("must be a number", "必须是数字");
pub(crate) const NOT_AN_OBJECT: Text = Text::fixed("must be a JSON object", "必须是 JSON 对象");
pub(crate) const NOT_READABLE: Text = Text::fixed(
    "cannot be read: it is nested too deeply, or contains an unpaired surrogate (\\u escape)",
    "无法读取：嵌套过深，或 \\u 转义不完整",
);
pub(crate) const READ_FAILED: Text = Text::fixed("could not be read", "读取失败");
pub(crate) const NOT_IN_FUTURE: Text =
    Text::fixed("must be a time in the future, before the year 10000", "必须是将来的时间，且早于 10000 年");
pub(crate) const REPAIR_REQUIRES_POST: Text = Text::fixed(
    "must be false: to repair, send a POST to /api/v1/ops/reconciliation/repair",
    "此处只能为 false：修复请 POST /api/v1/ops/reconciliation/repair",
);
pub(crate) const BAD_CURSOR: Text =
    Text::fixed("must be the nextCursor of an earlier page", "必须是上一页返回的 nextCursor");
pub(crate) const NOT_A_TIME: Text = Text::fixed(
    "must be an RFC 3339 time such as 2026-01-31T08:00:00Z",
    "必须是 RFC 3339 时间，例如 2026-01-31T08:00:00Z",
);
pub(crate) const NOT_A_REFERENCE: Text = Text::fixed(
    "must be a UUID such as 0192f0c1-0000-7000-8000-000000000001",
    "必须是 UUID，例如 0192f0c1-0000-7000-8000-000000000001",
);
pub(crate) const PLUS_NOT_ESCAPED: Text = Text::fixed(
    "must be an RFC 3339 time; in a URL, write the + of its time zone as %2B, such as 2026-01-31T08:00:00%2B08:00",
    "必须是 RFC 3339 时间；URL 中时区的 + 须写成 %2B，例如 2026-01-31T08:00:00%2B08:00",
);
pub(crate) const BAD_PERCENT: Text = Text::fixed(
    "is not valid percent-encoded UTF-8: after % write two hexadecimal digits, and write % itself as %25",
    "不是有效的百分号编码（UTF-8）：% 之后须有两位十六进制数字，% 本身须写成 %25",
);
pub(crate) const NOT_AN_INTEGER: Text = Text::fixed("must be an integer", "必须是整数");

pub(crate) const NOT_A_BOOLEAN: Text = Text::fixed("must be true or false", "必须是 true 或 false");
pub(crate) const KEYS_OR_FILTER: Text =
    Text::fixed("exactly one of keys and filter is required", "keys 与 filter 必须且只能给出一个");
pub(crate) const IDS_OR_FILTER: Text =
    Text::fixed("exactly one of eventIds and filter is required", "eventIds 与 filter 必须且只能给出一个");
pub(crate) const QUEUE_WITH_FILTER: Text =
    Text::fixed("must be inside the filter, or be used with keys", "应放在 filter 中，或与 keys 一起使用");
pub(crate) const EMPTY_FILTER: Text = Text::fixed("must have at least one field", "至少需要一个条件");

/// One of two fields is required.
pub(crate) fn required_without(other: &str) -> Text {
    Text::new(format!("is required if {other} is absent"), format!("缺少 {other} 时不能为空"))
}

pub(crate) fn integer_range(least: i64, greatest: i64) -> Text {
    Text::new(
        format!("must be an integer from {least} to {greatest}"),
        format!("必须是 {least} 到 {greatest} 的整数"),
    )
}

/// A range of amounts, in minor units.
pub(crate) fn amount_range(least: i64, greatest: i64) -> Text {
    let [least, greatest] = [least, greatest].map(|minor| Asset::Cash.show(minor));
    Text::new(format!("must be from {least} to {greatest}"), format!("必须在 {least} 到 {greatest} 之间"))
}

pub(crate) fn window_range(max_days: i64) -> Text {
    Text::new(
        format!("must be before the end of the window, by at most {max_days} days"),
        format!("必须早于窗口的结束时间，且窗口不超过 {max_days} 天"),
    )
}

pub(crate) fn list(max: usize) -> Text {
    Text::new(format!("must be a list of 1 to {max} items"), format!("必须是 1 到 {max} 项的列表"))
}

/// The body is not JSON. Line and column are those of the parser; columns count bytes.
pub(crate) fn not_json(line: usize, column: usize) -> Text {
    Text::new(
        format!("is not valid JSON: line {line}, column {column}"),
        format!("不是合法的 JSON：第 {line} 行第 {column} 列"),
    )
}

pub(crate) fn repeated_header(name: &str) -> Text {
    Text::new(
        format!("the header {name} is given more than once: send it once"),
        format!("请求头 {name} 重复出现，请只发送一次"),
    )
}

pub(crate) fn one_of(names: &str) -> Text {
    Text::new(format!("must be one of {names}"), format!("必须是以下之一：{names}"))
}

pub(crate) fn visible_ascii(max: usize) -> Text {
    Text::new(
        format!("must be 1 to {max} visible ASCII characters"),
        format!("必须是 1 到 {max} 个可见 ASCII 字符"),
    )
}

pub(crate) fn not_found(what: &'static str) -> Text {
    let zh = match what {
        "product" => "商品不存在",
        "order" => "订单不存在",
        "payment" => "支付单不存在",
        "refund" => "退款单不存在",
        "gateway report" => "支付网关报告不存在",
        "coupon" => "优惠券不存在",
        "user" => "用户不存在",
        "tenant" => "租户不存在",
        "event" => "事件不存在",
        "blocked aggregate" => "没有这样的被阻塞聚合",
        _ => "不存在",
    };
    Text::new(format!("no such {what}"), zh)
}

impl From<TextError> for Text {
    fn from(error: TextError) -> Text {
        Text::new(error, format!("必须是 1 到 {} 个字符，且不含控制字符", error.max))
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

impl From<MoneyError> for Text {
    fn from(error: MoneyError) -> Text {
        let zh = match error {
            MoneyError::NotDecimal => "必须是普通十进制数，例如 88.50",
            MoneyError::TooPrecise => "最多两位小数",
            MoneyError::OutOfRange => "必须在 0 到 90071992547409.91 之间",
        };
        Text::new(error, zh)
    }
}
