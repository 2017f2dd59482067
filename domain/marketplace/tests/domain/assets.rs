//! Placing an order with a coupon, a wallet amount or points: discounts and the remaining amount.

use handover_events::Envelope;
use marketplace_domain::{
    Asset, AssetRefusal, Coupon, CouponUse, EventBody, Money, Order, OrderAssets, OrderRefusal, PointsRules,
    Product, ProductRefusal, ProductStatus, RequestedAssets,
};
use proptest::prelude::*;

use crate::common::{
    FACTS, amounts, coupon, id, model_cases, money, new_order, placed_at, points, product, rules,
};

/// The example of the contract with assets, byte for byte, plus a final newline.
const GOLDEN: &str = include_str!("../golden/order_created_with_assets.json");

/// A discount of 10.00 with a minimum spend of 50.00.
fn ten_off() -> Coupon {
    coupon("10.00", "50.00")
}

fn requested(coupon: Option<Coupon>, wallet: &str, number: i64) -> RequestedAssets {
    RequestedAssets { coupon, wallet: money(wallet), points: points(number) }
}

/// The remaining amount of an order with price 88.50.
fn payable(requested: &RequestedAssets) -> Result<String, OrderRefusal> {
    placed(requested).map(|(order, _, _)| order.payable.to_string())
}

fn placed(requested: &RequestedAssets) -> Result<(Order, Product, Vec<EventBody>), OrderRefusal> {
    Order::place(&product(ProductStatus::OnSale), new_order(), requested, PointsRules::default())
}

fn more_than_left(asset: Asset, left: &str) -> OrderRefusal {
    OrderRefusal::Assets(AssetRefusal::MoreThanLeft { asset, left: money(left) })
}

#[test]
fn placed_order_contains_its_assets_and_the_remaining_amount() {
    let (order, _, _) = placed(&requested(Some(ten_off()), "20.00", 300)).unwrap();
    let coupon = Some(CouponUse { id: id(80_001), discount: money("10.00") });
    assert_eq!(order.assets, OrderAssets { coupon, wallet: money("20.00"), points: points(300) });
    assert_eq!((order.total, order.payable), (money("88.50"), money("55.50")));
    assert_eq!(order.assets.named().collect::<Vec<_>>(), Asset::HELD);
    assert_eq!(Asset::HELD.map(|asset| order.assets.amount(asset)), [1000, 2000, 300]);
}

#[test]
fn order_created_with_assets_matches_the_contract_example() {
    let (_, _, events) = placed(&requested(Some(ten_off()), "20.00", 300)).unwrap();
    let envelope = Envelope {
        event_id: "0192f0c1-0000-7000-8000-000000000001".parse().unwrap(),
        event_type: "ORDER_CREATED".into(),
        aggregate_type: "Order".into(),
        aggregate_id: 900_001.into(),
        occurred_at: placed_at(),
        trace_id: "trace-xxx".into(),
        payload: serde_json::from_str(&events[0].to_json()).unwrap(),
    };
    assert_eq!(serde_json::to_string_pretty(&envelope).unwrap() + "\n", GOLDEN);
    assert_eq!(EventBody::of(&Envelope::parse(GOLDEN).unwrap()).unwrap(), events[0]);
}

#[test]
fn order_created_contains_only_the_assets_of_the_order() {
    let announced = |requested: RequestedAssets, assets: &str| {
        let (order, _, events) = placed(&requested).unwrap();
        let own = format!(r#""productId":70001,"quantity":1,"price":88.50{assets}"#);
        assert_eq!(events[0].to_json(), format!("{{{FACTS},{own}}}"));
        let named: Vec<Asset> = order.assets.named().collect();
        assert_eq!(order.assets.is_empty(), named.is_empty());
        named
    };
    assert_eq!(announced(RequestedAssets::NONE, ""), []);
    assert_eq!(announced(requested(Some(ten_off()), "0", 0), r#","couponId":80001"#), [Asset::Coupon]);
    assert_eq!(announced(requested(None, "0.01", 0), r#","walletAmount":0.01"#), [Asset::Wallet]);
    assert_eq!(announced(requested(None, "0", 1), r#","points":1"#), [Asset::Points]);
}

#[test]
fn coupon_is_rejected_if_the_price_is_below_its_minimum_spend() {
    assert_eq!(payable(&requested(Some(coupon("10.00", "88.50")), "0", 0)), Ok("78.50".into()));
    let refusal = placed(&requested(Some(coupon("10.00", "88.51")), "0", 0)).unwrap_err();
    let below = AssetRefusal::BelowMinimumSpend { min_spend: money("88.51"), price: money("88.50") };
    assert_eq!(refusal, OrderRefusal::Assets(below));
    assert_eq!(refusal.to_string(), "the coupon requires a price of at least 88.51; the price is 88.50");
}

#[test]
fn coupon_discount_is_limited_to_the_price() {
    for (discount, taken, left) in
        [("88.49", "88.49", "0.01"), ("88.50", "88.50", "0.00"), ("500", "88.50", "0.00")]
    {
        let (order, _, _) = placed(&requested(Some(coupon(discount, "0")), "0", 0)).unwrap();
        assert_eq!(order.assets.coupon, Some(CouponUse { id: id(80_001), discount: money(taken) }));
        assert_eq!(order.payable, money(left));
    }
}

#[test]
fn coupon_with_zero_discount_is_still_used_by_the_order() {
    let (order, _, _) = placed(&requested(Some(coupon("0", "0")), "0", 0)).unwrap();
    assert!(order.assets.names(Asset::Coupon) && !order.assets.is_empty());
    assert_eq!(order.payable, money("88.50"));
}

#[test]
fn assets_above_the_remaining_amount_are_rejected() {
    assert_eq!(payable(&requested(None, "88.50", 0)), Ok("0.00".into()));
    assert_eq!(payable(&requested(None, "88.51", 0)), Err(more_than_left(Asset::Wallet, "88.50")));
    assert_eq!(payable(&requested(None, "0", 8850)), Ok("0.00".into()));
    assert_eq!(payable(&requested(None, "0", 8851)), Err(more_than_left(Asset::Points, "88.50")));
    // Assets are applied in this sequence: coupon, wallet, points.
    assert_eq!(payable(&requested(Some(ten_off()), "78.50", 0)), Ok("0.00".into()));
    assert_eq!(
        payable(&requested(Some(ten_off()), "78.51", 9000)),
        Err(more_than_left(Asset::Wallet, "78.50"))
    );
    assert_eq!(payable(&requested(Some(ten_off()), "78", 50)), Ok("0.00".into()));
    let refusal = payable(&requested(Some(ten_off()), "78", 51)).unwrap_err();
    assert_eq!(refusal, more_than_left(Asset::Points, "0.50"));
    assert_eq!(refusal.to_string(), "the points amount exceeds the remaining amount of 0.50");
}

#[test]
fn product_refusal_takes_precedence_over_asset_refusal() {
    let too_much = requested(None, "100", 0);
    let place =
        |product: &Product, new| Order::place(product, new, &too_much, PointsRules::default()).unwrap_err();
    let sold = ProductRefusal::WrongStatus { status: ProductStatus::Sold };
    assert_eq!(place(&product(ProductStatus::Sold), new_order()), OrderRefusal::Product(sold));
    let own = Product { seller: new_order().buyer, ..product(ProductStatus::OnSale) };
    assert_eq!(place(&own, new_order()), OrderRefusal::Product(ProductRefusal::OwnProduct));
}

#[test]
fn insufficient_error_shows_amounts_in_the_unit_of_the_asset() {
    let message = |asset| AssetRefusal::Insufficient { asset, asked: 8850, available: -5 }.to_string();
    assert_eq!(message(Asset::Wallet), "insufficient wallet: 88.50 requested, -0.05 available");
    assert_eq!(message(Asset::Points), "insufficient points: 8850 requested, -5 available");
    assert_eq!(Asset::Cash.show(i64::MIN), "-92233720368547758.08");
    assert_eq!(Asset::Cash.show(0), "0.00");
}

proptest! {
    #![proptest_config(model_cases())]

    #[test]
    fn assets_and_remaining_amount_sum_to_the_price(
        price in amounts(),
        discount in prop::option::of((amounts(), amounts())),
        wallet in prop_oneof![Just(Money::ZERO), amounts()],
        number in prop_oneof![Just(0), 0..=3_000i64, any::<u32>().prop_map(i64::from)],
        rate in prop_oneof![Just(50u32), Just(100), Just(1000), 1..=2000u32],
    ) {
        let named = discount.map(|(off, min)| Coupon { discount: off, min_spend: min, ..ten_off() });
        let requested = RequestedAssets { coupon: named, wallet, points: points(number) };
        let mut left = i128::from(price.minor());
        let mut refused = false;
        if let Some((off, min)) = discount {
            refused |= price < min;
            left -= left.min(i128::from(off.minor()));
        }
        left -= i128::from(wallet.minor());
        refused |= left < 0;
        let hundredfold = i128::from(number) * 100;
        refused |= hundredfold % i128::from(rate) != 0;
        left -= hundredfold / i128::from(rate);
        refused |= left < 0;
        let expected = (!refused).then_some(left);
        let payable = requested.apply_to(price, rules(rate, 1)).ok().map(|(_, payable)| i128::from(payable.minor()));
        prop_assert_eq!(payable, expected);
    }
}
