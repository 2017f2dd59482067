//! Orders with a coupon, a wallet amount or points, and reads of a user's assets.

use super::bodies::{NO_ID, NO_MONEY, each};
use super::case::{Case, get, post};
use super::market::{BUYER, FOREIGN_BUYER, Market, OTHER_USER};

const ORDERS: &str = "/api/v1/orders";

/// Invalid numbers of points, each with a name. Null is omitted, because it is the same as an absent field.
const NO_POINTS: [(&str, &str); 9] = [
    ("text", r#""100""#),
    ("a boolean", "true"),
    ("a list", "[100]"),
    ("an object", r#"{"points":100}"#),
    ("negative", "-1"),
    ("a fraction", "1.5"),
    ("a whole fraction", "100.0"),
    ("an exponent", "1e2"),
    ("2^53", "9007199254740992"),
];

pub(crate) fn cases(market: &Market) -> Vec<Case> {
    [placing(market), reads()].concat()
}

fn placing(market: &Market) -> Vec<Case> {
    let Market { product, coupon, expensive_coupon, other_coupon, .. } = *market;
    let with = |name: &str, assets: &str| {
        post(&format!("order with assets, {name}"), ORDERS)
            .by(BUYER)
            .json(&format!(r#"{{"productId":{product},{assets}}}"#))
    };
    let field =
        |field: &'static str| move |name: &str, value: &str| with(name, &format!(r#""{field}":{value}"#));
    // Null is omitted, because it is the same as an absent field.
    let mut cases = each(&NO_ID[1..], "couponId", field("couponId"));
    cases.extend(each(&NO_MONEY[1..], "walletAmount", field("walletAmount")));
    cases.extend(each(&NO_POINTS, "points", field("points")));
    let all = ["couponId", "walletAmount", "points"];
    let coupon_of = |name: &str, id: i64| with(name, &format!(r#""couponId":{id}"#));
    cases.extend([
        with("every field invalid", r#""couponId":"1","walletAmount":-1,"points":-1"#).invalid(&all),
        with("a duplicate field", r#""points":1,"points":2"#).invalid(&["points"]),
        with("an unknown asset", r#""cash":1.00"#).invalid(&["cash"]),
        with("a discount chosen by the buyer", r#""couponDiscount":88.50"#).invalid(&["couponDiscount"]),
        with("a cent more than the price", r#""walletAmount":88.51"#).invalid(&["walletAmount"]),
        with("the greatest amount", r#""walletAmount":90071992547409.91"#).invalid(&["walletAmount"]),
        with("a point more than the price", r#""points":8851"#).invalid(&["points"]),
        with("the most points", r#""points":9007199254740991"#).invalid(&["points"]),
        with("more than the price after the coupon", &format!(r#""couponId":{coupon},"walletAmount":83.51"#))
            .invalid(&["walletAmount"]),
        with("a point although the wallet pays the price", r#""walletAmount":88.50,"points":1"#)
            .invalid(&["points"]),
        coupon_of("a coupon for a higher price", expensive_coupon).refused(409, "A0409", &[]),
        coupon_of("no such coupon", 9_007_199_254_740_991).refused(404, "A0404", &[]),
        coupon_of("another user's coupon", other_coupon).refused(404, "A0404", &[]),
        coupon_of("another user with the buyer's coupon", coupon).by(OTHER_USER).refused(404, "A0404", &[]),
    ]);
    cases
}

fn reads() -> Vec<Case> {
    let mut cases = Vec::new();
    for path in ["wallet", "points", "coupons"].map(|path| format!("/api/v1/{path}")) {
        cases.push(get(&format!("{path} without a token"), &path).refused(401, "A0301", &[]));
        cases.push(get(&format!("the buyer's {path}"), &path).by(BUYER).unchanged(200));
        cases.push(
            get(&format!("{path} of the same user id in another tenant"), &path)
                .by(FOREIGN_BUYER)
                .unchanged(200),
        );
    }
    cases
}
