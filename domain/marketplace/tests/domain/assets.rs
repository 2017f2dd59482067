//! Placing an order that names a coupon, a wallet amount or points: what each takes off, and what is left to pay.

use handover_events::Envelope;
use marketplace_domain::{
    AskedAssets, Asset, AssetRefusal, Coupon, CouponUse, EventBody, Money, Order, OrderAssets, OrderRefusal,
    PointsRules, Product, ProductRefusal, ProductStatus,
};
use proptest::prelude::*;

use crate::common::{
    FACTS, amounts, coupon, id, model_cases, money, new_order, placed_at, points, product, rules,
};

/// The example of the contract with assets, byte for byte, and the newline that ends every text file.
const GOLDEN: &str = include_str!("../golden/order_created_with_assets.json");

/// 10.00 off for 50.00 or more.
fn ten_off() -> Coupon {
    coupon("10.00", "50.00")
}

fn asked(coupon: Option<Coupon>, wallet: &str, number: i64) -> AskedAssets {
    AskedAssets { coupon, wallet: money(wallet), points: points(number) }
}

/// What is left to pay of 88.50.
fn payable(asked: &AskedAssets) -> Result<String, OrderRefusal> {
    placed(asked).map(|(order, _, _)| order.payable.to_string())
}

fn placed(asked: &AskedAssets) -> Result<(Order, Product, Vec<EventBody>), OrderRefusal> {
    Order::place(&product(ProductStatus::OnSale), new_order(), asked, PointsRules::default())
}

fn more_than_left(asset: Asset, left: &str) -> OrderRefusal {
    OrderRefusal::Assets(AssetRefusal::MoreThanLeft { asset, left: money(left) })
}

#[test]
fn an_order_names_its_assets_and_what_is_left_is_paid_in_money() {
    let (order, _, _) = placed(&asked(Some(ten_off()), "20.00", 300)).unwrap();
    let coupon = Some(CouponUse { id: id(80_001), discount: money("10.00") });
    assert_eq!(order.assets, OrderAssets { coupon, wallet: money("20.00"), points: points(300) });
    assert_eq!((order.total, order.payable), (money("88.50"), money("55.50")));
    assert_eq!(order.assets.named().collect::<Vec<_>>(), Asset::HELD);
    assert_eq!(Asset::HELD.map(|asset| order.assets.amount(asset)), [1000, 2000, 300]);
}

#[test]
fn the_assets_of_an_order_are_announced_as_the_contract_says() {
    let (_, _, events) = placed(&asked(Some(ten_off()), "20.00", 300)).unwrap();
    let envelope = Envelope {
        event_id: "0192f0c1-0000-7000-8000-000000000001".parse().unwrap(),
        event_type: "ORDER_CREATED".into(),
        aggregate_type: "Order".into(),
        aggregate_id: 900_001,
        occurred_at: placed_at(),
        trace_id: "trace-xxx".into(),
        payload: serde_json::from_str(&events[0].to_json()).unwrap(),
    };
    assert_eq!(serde_json::to_string_pretty(&envelope).unwrap() + "\n", GOLDEN);
    assert_eq!(EventBody::of(&Envelope::parse(GOLDEN).unwrap()).unwrap(), events[0]);
}

#[test]
fn only_the_assets_that_an_order_names_are_announced() {
    let told = |asked: AskedAssets, assets: &str| {
        let (order, _, events) = placed(&asked).unwrap();
        let own = format!(r#""productId":70001,"quantity":1,"price":88.50{assets}"#);
        assert_eq!(events[0].to_json(), format!("{{{FACTS},{own}}}"));
        order.assets.named().collect::<Vec<_>>()
    };
    assert_eq!(told(AskedAssets::NONE, ""), []);
    assert_eq!(told(asked(Some(ten_off()), "0", 0), r#","couponId":80001"#), [Asset::Coupon]);
    assert_eq!(told(asked(None, "0.01", 0), r#","walletAmount":0.01"#), [Asset::Wallet]);
    assert_eq!(told(asked(None, "0", 1), r#","points":1"#), [Asset::Points]);
}

#[test]
fn a_coupon_is_for_its_minimum_spend_or_more() {
    assert_eq!(payable(&asked(Some(coupon("10.00", "88.50")), "0", 0)), Ok("78.50".into()));
    let refusal = placed(&asked(Some(coupon("10.00", "88.51")), "0", 0)).unwrap_err();
    let below = AssetRefusal::BelowMinimumSpend { min_spend: money("88.51"), price: money("88.50") };
    assert_eq!(refusal, OrderRefusal::Assets(below));
    assert_eq!(refusal.to_string(), "the coupon is for 88.51 or more, the price is 88.50");
}

#[test]
fn a_coupon_takes_off_no_more_than_the_price() {
    for (discount, taken, left) in
        [("88.49", "88.49", "0.01"), ("88.50", "88.50", "0.00"), ("500", "88.50", "0.00")]
    {
        let (order, _, _) = placed(&asked(Some(coupon(discount, "0")), "0", 0)).unwrap();
        assert_eq!(order.assets.coupon, Some(CouponUse { id: id(80_001), discount: money(taken) }));
        assert_eq!(order.payable, money(left));
    }
}

#[test]
fn a_coupon_that_takes_nothing_off_is_named_all_the_same() {
    let (order, _, _) = placed(&asked(Some(coupon("0", "0")), "0", 0)).unwrap();
    assert!(order.assets.names(Asset::Coupon) && !order.assets.is_empty());
    assert_eq!(order.payable, money("88.50"));
}

#[test]
fn no_more_is_paid_with_assets_than_is_left() {
    assert_eq!(payable(&asked(None, "88.50", 0)), Ok("0.00".into()));
    assert_eq!(payable(&asked(None, "88.51", 0)), Err(more_than_left(Asset::Wallet, "88.50")));
    assert_eq!(payable(&asked(None, "0", 8850)), Ok("0.00".into()));
    assert_eq!(payable(&asked(None, "0", 8851)), Err(more_than_left(Asset::Points, "88.50")));
    // First the coupon, then the wallet, then the points.
    assert_eq!(payable(&asked(Some(ten_off()), "78.50", 0)), Ok("0.00".into()));
    assert_eq!(payable(&asked(Some(ten_off()), "78.51", 9000)), Err(more_than_left(Asset::Wallet, "78.50")));
    assert_eq!(payable(&asked(Some(ten_off()), "78", 50)), Ok("0.00".into()));
    let refusal = payable(&asked(Some(ten_off()), "78", 51)).unwrap_err();
    assert_eq!(refusal, more_than_left(Asset::Points, "0.50"));
    assert_eq!(refusal.to_string(), "points is more than the 0.50 that are left to be paid");
}

#[test]
fn a_product_that_cannot_be_bought_is_told_before_assets_that_cannot_be_used() {
    let too_much = asked(None, "100", 0);
    let place =
        |product: &Product, new| Order::place(product, new, &too_much, PointsRules::default()).unwrap_err();
    let sold = ProductRefusal::WrongStatus { status: ProductStatus::Sold };
    assert_eq!(place(&product(ProductStatus::Sold), new_order()), OrderRefusal::Product(sold));
    let own = Product { seller: new_order().buyer, ..product(ProductStatus::OnSale) };
    assert_eq!(place(&own, new_order()), OrderRefusal::Product(ProductRefusal::OwnProduct));
}

#[test]
fn amounts_are_told_in_the_unit_of_the_asset() {
    let told = |asset| AssetRefusal::Insufficient { asset, asked: 8850, available: -5 }.to_string();
    assert_eq!(told(Asset::Wallet), "not enough wallet: 88.50 asked, -0.05 available");
    assert_eq!(told(Asset::Points), "not enough points: 8850 asked, -5 available");
    assert_eq!(Asset::Cash.show(i64::MIN), "-92233720368547758.08");
}

proptest! {
    #![proptest_config(model_cases())]

    #[test]
    fn what_assets_and_money_pay_is_the_price_to_the_cent(
        price in amounts(),
        discount in prop::option::of((amounts(), amounts())),
        wallet in prop_oneof![Just(Money::ZERO), amounts()],
        number in prop_oneof![Just(0), 0..=3_000i64, any::<u32>().prop_map(i64::from)],
        rate in prop_oneof![Just(50u32), Just(100), Just(1000), 1..=2000u32],
    ) {
        let named = discount.map(|(off, min)| Coupon { discount: off, min_spend: min, ..ten_off() });
        let asked = AskedAssets { coupon: named, wallet, points: points(number) };
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
        let payable = asked.applied_to(price, rules(rate, 1)).ok().map(|(_, payable)| i128::from(payable.minor()));
        prop_assert_eq!(payable, expected);
    }
}
