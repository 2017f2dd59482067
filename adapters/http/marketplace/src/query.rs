//! Query parameters of the marketplace.

use handover_http::messages::Text;
use handover_http::reads_text;
use handover_http::values::{ReadsText, name};
use marketplace::ports::OrderSide;
use marketplace_domain::{
    FindingState, InvoiceStatus, OrderStatus, ProductStatus, RefundStatus, ReportState, ShipmentState,
};

use crate::messages;
use crate::openapi::kinds;

reads_text! {
    OrderStatus: OrderStatus = name;
    ProductStatus: ProductStatus = name;
    RefundStatus: RefundStatus = name;
    InvoiceStatus: InvoiceStatus = name;
    ReportState: ReportState = name;
    FindingState: FindingState = name;
    ShipmentState: ShipmentState = name;
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
