//! Query parameters of the marketplace.

use handover_http::query::Parameters;
use marketplace::ports::OrderSide;

use crate::messages;

/// Reads `as`, the caller's side of an order. An empty value is an error, because the default might select the list
/// that the client did not mean.
pub(crate) fn side(parameters: &mut Parameters) -> Option<OrderSide> {
    parameters.read_even_if_empty("as", |text| match text {
        "buyer" => Ok(OrderSide::Buyer),
        "seller" => Ok(OrderSide::Seller),
        _ => Err(messages::one_of("buyer seller")),
    })
}
