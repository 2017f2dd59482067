//! Query parameters of the marketplace.

use handover_http::messages::Text;
use handover_http::reads_text;
use handover_http::values::{ReadsText, name, visible_ascii};
use marketplace::ports::OrderSide;
use marketplace_domain::{
    FindingState, InvoiceStatus, NotAReference, NotAnOrderNo, OrderNo, OrderStatus, ProductStatus, Reference,
    RefundStatus, ReportState, ShipmentState,
};

use crate::messages;
use crate::openapi::kinds;
use crate::value_limits::MAX_TRANSACTION_CHARS;

reads_text! {
    OrderStatus: OrderStatus = name;
    ProductStatus: ProductStatus = name;
    RefundStatus: RefundStatus = name;
    InvoiceStatus: InvoiceStatus = name;
    ReportState: ReportState = name;
    FindingState: FindingState = name;
    ShipmentState: ShipmentState = name;
    OrderNo: OrderNo = |text| text.parse().map_err(|_: NotAnOrderNo| messages::NOT_AN_ORDER_NO);
    Reference: Reference = |text| text.parse().map_err(|_: NotAReference| messages::NOT_A_REFERENCE);
    TransactionId: String = |text| visible_ascii(text, MAX_TRANSACTION_CHARS);
    NoRepair: () = |text| if text == "false" { Ok(()) } else { Err(messages::REPAIR_REQUIRES_POST) };
}

/// The caller's side of an order. An empty value is an error, because the default might select the list that the client
/// did not mean.
impl ReadsText<OrderSide> for kinds::Side {
    const EMPTY_IS_ABSENT: bool = false;

    fn read_text(text: &str) -> Result<OrderSide, Text> {
        match text {
            "buyer" => Ok(OrderSide::Buyer),
            "seller" => Ok(OrderSide::Seller),
            _ => Err(messages::one_of("buyer seller")),
        }
    }
}
