//! Messages of the domain's refusals: the domain's English text and its Chinese translation.

use std::borrow::Cow;

use handover_http::messages::Text;
use marketplace_domain::{
    Asset, AssetRefusal, CouponStatus, HoldStatus, InvoiceRefusal, InvoiceStatus, OrderRefusal, OrderStatus,
    ProductRefusal, ProductStatus, RefundRefusal, RefundStatus,
};

/// The message of a refusal in both languages.
pub(crate) trait Message {
    fn message(&self) -> Text;
}

impl Message for ProductRefusal {
    fn message(&self) -> Text {
        let zh = match self {
            ProductRefusal::WrongStatus { status: ProductStatus::OnSale } => "商品正在出售",
            ProductRefusal::WrongStatus { status: ProductStatus::Sold } => "商品已售出",
            ProductRefusal::WrongStatus { status: ProductStatus::OffShelf } => "商品已下架",
            ProductRefusal::OwnProduct => "不能购买自己的商品",
            ProductRefusal::NotTheSeller => "只有卖家可以操作该商品",
        };
        Text::new(self, zh)
    }
}

impl Message for OrderRefusal {
    fn message(&self) -> Text {
        let zh: Cow<'static, str> = match self {
            OrderRefusal::NotAllowed { .. } => "您不能对该订单执行此操作".into(),
            OrderRefusal::WrongStatus { status, .. } => {
                format!("订单{}，不能执行此操作", order_status(*status)).into()
            }
            OrderRefusal::NotOverdue => "订单尚未超时".into(),
            OrderRefusal::Refunding { .. } => "订单退款处理中，不能执行此操作".into(),
            OrderRefusal::Assets(asset) => return asset.message(),
            OrderRefusal::Product(product) => return product.message(),
        };
        Text::new(self, zh)
    }
}

fn order_status(status: OrderStatus) -> &'static str {
    match status {
        OrderStatus::Pending => "待支付",
        OrderStatus::Paid => "已支付",
        OrderStatus::Shipped => "已发货",
        OrderStatus::Completed => "已完成",
        OrderStatus::Cancelled => "已取消",
        OrderStatus::Refunded => "已退款",
    }
}

impl Message for RefundRefusal {
    fn message(&self) -> Text {
        let zh: Cow<'static, str> = match self {
            RefundRefusal::AlreadySettled { status: RefundStatus::Processing } => "退款处理中".into(),
            RefundRefusal::AlreadySettled { status: RefundStatus::Success } => "退款已成功".into(),
            RefundRefusal::AlreadySettled { status: RefundStatus::Failed } => "退款已失败".into(),
            RefundRefusal::NothingToRefund => "没有可退的款项".into(),
            RefundRefusal::AlreadyRefunded { other } => {
                format!("退款单 {other} 已退回或正在退回同一笔款项").into()
            }
            RefundRefusal::ResultUnknown { refund } => {
                format!("退款单 {refund} 已发送，网关尚未报告结果：请由运营重试退款单 {refund} 以取得结果，或以其他方式退款后手工结算").into()
            }
        };
        Text::new(self, zh)
    }
}

impl Message for InvoiceRefusal {
    fn message(&self) -> Text {
        let zh = match self {
            InvoiceRefusal::NotClosed { period, .. } => format!("账期 {period} 尚未结束，不能生成账单"),
            InvoiceRefusal::NoOrders { period } => format!("账期 {period} 没有已完成的订单"),
            InvoiceRefusal::WrongStatus { status, .. } => {
                format!("账单{}，不能执行此操作", invoice_status(*status))
            }
            InvoiceRefusal::TooLarge { period } => format!("账期 {period} 的费用超出金额上限"),
        };
        Text::new(self, zh)
    }
}

const fn invoice_status(status: InvoiceStatus) -> &'static str {
    match status {
        InvoiceStatus::Pending => "待支付",
        InvoiceStatus::Paid => "已支付",
        InvoiceStatus::Refunded => "已退款",
    }
}

impl Message for AssetRefusal {
    fn message(&self) -> Text {
        let zh: Cow<'static, str> = match self {
            AssetRefusal::Insufficient { asset, asked, available } => {
                let asked = asset.show(*asked);
                let available = asset.show(*available);
                format!("{}不足：需要 {asked}，可用 {available}", name(*asset)).into()
            }
            AssetRefusal::BelowMinimumSpend { min_spend, price } => {
                format!("优惠券需满 {min_spend} 可用，当前价格为 {price}").into()
            }
            AssetRefusal::MoreThanLeft { asset, left } => {
                format!("{}超过剩余应付金额 {left}", name(*asset)).into()
            }
            AssetRefusal::PointsNotWhole { step } => format!("积分必须是 {step} 的倍数").into(),
            AssetRefusal::CouponNotAvailable { status } => coupon_status(*status).into(),
            AssetRefusal::NotYourCoupon => "该优惠券不属于您".into(),
            AssetRefusal::NotLocked { asset } => format!("该订单没有锁定{}", name(*asset)).into(),
            AssetRefusal::HoldEnded { asset, status } => {
                format!("该订单的{}{}", name(*asset), hold_status(*status)).into()
            }
            AssetRefusal::BeyondCommitted { asset } => {
                format!("该订单未使用{}，无法退回", name(*asset)).into()
            }
            AssetRefusal::TooMuch { asset } => format!("{}超出账户上限", name(*asset)).into(),
        };
        Text::new(self, zh)
    }
}

fn name(asset: Asset) -> &'static str {
    match asset {
        Asset::Coupon => "优惠券",
        Asset::Wallet => "钱包余额",
        Asset::Points => "积分",
        Asset::Cash => "现金",
    }
}

fn coupon_status(status: CouponStatus) -> &'static str {
    match status {
        CouponStatus::Available => "优惠券可用",
        CouponStatus::Locked => "优惠券已被其他订单锁定",
        CouponStatus::Used => "优惠券已使用",
        CouponStatus::Expired => "优惠券已过期",
    }
}

fn hold_status(status: HoldStatus) -> &'static str {
    match status {
        HoldStatus::Frozen => "已冻结",
        HoldStatus::Committed => "已扣减",
        HoldStatus::Released => "已释放",
    }
}
