//! Messages of responses, in English and Chinese: the toolkit's, and those of the marketplace. The domain has the English
//! messages of its own rules; their Chinese translations are here.

mod refusals;

pub(crate) use refusals::Message;

use handover_http::messages::Text;
use marketplace::use_cases::PaymentCommandRefusal;
use marketplace_domain::{Asset, MoneyError, PaymentMethod};

pub(crate) use handover_http::messages::*;

pub(crate) const BAD_SIGNATURE: Text =
    Text::fixed("the signature is missing, invalid or too old", "签名缺失、错误或已过期");

pub(crate) const KEY_STORE_UNAVAILABLE: Text = Text::fixed(
    "the store of idempotency keys is unavailable; nothing was done: retry later with the same key, or send the request without a key",
    "幂等键暂不可用，操作未执行：请稍后使用相同的幂等键重试，或不带幂等键发送",
);

pub(crate) const NOT_LOCKED_YET: Text = Text::fixed(
    "the assets of the order are still being locked; nothing was changed; retry later",
    "订单的资产正在锁定，数据未变更，请稍后重试",
);

pub(crate) const NOT_IN_FUTURE: Text =
    Text::fixed("must be a time in the future, before the year 10000", "必须是将来的时间，且早于 10000 年");

pub(crate) const REPAIR_REQUIRES_POST: Text = Text::fixed(
    "must be false: to repair, send a POST to /api/v1/ops/reconciliation/repair",
    "此处只能为 false：修复请 POST /api/v1/ops/reconciliation/repair",
);

pub(crate) const NOT_A_REFERENCE: Text = Text::fixed(
    "must be a UUID such as 0192f0c1-0000-7000-8000-000000000001",
    "必须是 UUID，例如 0192f0c1-0000-7000-8000-000000000001",
);

pub(crate) const NOT_AN_ORDER_NO: Text =
    Text::fixed("must be an order number: 24 digits", "必须是 24 位数字的订单号");

/// For a search by one of several values.
pub(crate) const ONE_SEARCH: Text = Text::fixed(
    "exactly one of orderNo, buyerId, paymentId, reference and transactionId is required",
    "orderNo、buyerId、paymentId、reference、transactionId 必须且只能给出一个",
);

pub(crate) const NOT_A_PERIOD: Text = Text::fixed(
    "must be a month such as 2026-02, from 1970-01 to 9998-12",
    "必须是月份，例如 2026-02，范围 1970-01 至 9998-12",
);

/// One of two fields is required.
pub(crate) fn required_without(other: &str) -> Text {
    Text::new(format!("is required if {other} is absent"), format!("缺少 {other} 时不能为空"))
}

/// A payment with this method is in progress.
pub(crate) fn other_method(refusal: &PaymentCommandRefusal, running: PaymentMethod) -> Text {
    Text::new(refusal, format!("使用 {running} 的支付正在处理中：请使用该方式，或等待该支付失败"))
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

pub(crate) fn money(error: MoneyError) -> Text {
    let zh = match error {
        MoneyError::NotDecimal => "必须是普通十进制数，例如 88.50",
        MoneyError::TooPrecise => "最多两位小数",
        MoneyError::OutOfRange => "必须在 0 到 90071992547409.91 之间",
    };
    Text::new(error, zh)
}

pub(crate) fn not_found(what: &'static str) -> Text {
    let zh = match what {
        "product" => "商品不存在",
        "order" => "订单不存在",
        "payment" => "支付单不存在",
        "refund" => "退款单不存在",
        "invoice" => "账单不存在",
        "tenant" => "租户不存在",
        "gateway report" => "支付网关报告不存在",
        "finding" => "对账差异不存在",
        "coupon" => "优惠券不存在",
        "user" => "用户不存在",
        _ => return handover_http::messages::not_found(what),
    };
    Text::new(format!("no such {what}"), zh)
}
