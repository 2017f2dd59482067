//! `POST /api/v1/orders`, and the routes that ship, pay, cancel, complete and read an order.

use super::bodies::{NO_ID, NO_TEXT, each};
use super::case::{Case, get, post};
use super::market::{BUYER, FOREIGN_BUYER, FOREIGN_SELLER, Market, OPERATOR, OTHER_USER, SELLER};

const ORDERS: &str = "/api/v1/orders";

pub(crate) fn cases(market: &Market) -> Vec<Case> {
    [placing(market), keys(market), shipping(market), paying(market), steps(market), reads(market)].concat()
}

fn placing(market: &Market) -> Vec<Case> {
    let placed = |name: &str, body: &str| post(&format!("order, {name}"), ORDERS).by(BUYER).json(body);
    let of = |name: &str, product: &str| placed(name, &format!(r#"{{"productId":{product}}}"#));
    let Market { product, sold, hidden, foreign, .. } = *market;
    let mut cases = each(&NO_ID, "productId", of);
    let twice = format!(r#"{{"productId":{product},"productId":{product}}}"#);
    cases.extend([
        placed("without a product", "{}").invalid(&["productId"]),
        placed("not an object", "[1]").invalid(&["body"]),
        placed("cut off", r#"{"productId":"#).invalid(&["body"]),
        placed("a duplicate field", &twice).invalid(&["productId"]),
        of("no such product", "9007199254740991").refused(404, "A0404", &[]),
        of("another tenant's product", &foreign.to_string()).refused(404, "A0404", &[]),
        of("a sold product", &sold.to_string()).refused(409, "A0409", &[]),
        of("a hidden product", &hidden.to_string()).refused(409, "A0409", &[]),
        of("no token", &product.to_string()).without_token().refused(401, "A0301", &[]),
        of("the buyer's own product", &product.to_string()).by(SELLER).refused(403, "A0303", &[]),
        of("from another tenant", &product.to_string()).by(FOREIGN_BUYER).refused(404, "A0404", &[]),
    ]);
    cases
}

fn keys(market: &Market) -> Vec<Case> {
    let keyed = |name: &str, key: &str| {
        post(&format!("idempotency key, {name}"), ORDERS)
            .by(BUYER)
            .json(&format!(r#"{{"productId":{}}}"#, market.product))
            .header("X-Idempotency-Key", key)
            .invalid(&["X-Idempotency-Key"])
    };
    let without_key = |name: &str, path: &str, body: &str| {
        post(&format!("no idempotency key, {name}"), path)
            .by(BUYER)
            .json(body)
            .without_key()
            .invalid(&["X-Idempotency-Key"])
    };
    vec![
        without_key("an order", ORDERS, &format!(r#"{{"productId":{}}}"#, market.product)),
        without_key("a payment", &format!("{ORDERS}/{}/payments", market.pending), "{}"),
        keyed("256 characters", &"k".repeat(256)),
        keyed("with a space", "a b"),
        keyed("with a tab", "a\tb"),
        keyed("empty", ""),
        keyed("not ASCII", "schlüssel"),
    ]
}

fn shipping(market: &Market) -> Vec<Case> {
    let ship = |name: &str, order: i64, body: &str| {
        post(&format!("ship, {name}"), &format!("{ORDERS}/{order}/ship")).by(SELLER).json(body)
    };
    let Market { pending, paid, shipped, .. } = *market;
    let valid = r#"{"carrier":"SF","trackingNo":"T1"}"#;
    let carrier =
        |name: &str, value: &str| ship(name, paid, &format!(r#"{{"carrier":{value},"trackingNo":"T1"}}"#));
    let number =
        |name: &str, value: &str| ship(name, paid, &format!(r#"{{"carrier":"SF","trackingNo":{value}}}"#));
    let long = format!("\"{}\"", "x".repeat(65));
    let texts = [
        ("empty", r#""""#),
        ("blank", r#""  ""#),
        ("with a control character", r#""a\u0007""#),
        ("too long", &long),
    ];
    let mut cases = Vec::new();
    for values in [&NO_TEXT[..], &texts] {
        cases.extend(each(values, "carrier", carrier));
        cases.extend(each(values, "trackingNo", number));
    }
    cases.extend([
        ship("no fields", paid, "{}").invalid(&["carrier", "trackingNo"]),
        ship("an unknown field", paid, r#"{"carrier":"SF","trackingNo":"T1","cost":1}"#).invalid(&["cost"]),
        ship("a duplicate field", paid, r#"{"carrier":"SF","carrier":"YTO","trackingNo":"T1"}"#)
            .invalid(&["carrier"]),
        ship("no body", paid, "").invalid(&["body"]),
        ship("an unpaid order", pending, valid).refused(409, "A0409", &[]),
        ship("a shipped order", shipped, valid).refused(409, "A0409", &[]),
        ship("by the buyer", paid, valid).by(BUYER).refused(403, "A0303", &[]),
        ship("by another user", paid, valid).by(OTHER_USER).refused(404, "A0404", &[]),
        ship("by the same user id in another tenant", paid, valid).by(FOREIGN_SELLER).refused(
            404,
            "A0404",
            &[],
        ),
        ship("by the operator", paid, valid).by(OPERATOR).refused(404, "A0404", &[]),
    ]);
    cases
}

fn paying(market: &Market) -> Vec<Case> {
    let pay = |name: &str, order: i64, body: &str| {
        post(&format!("pay, {name}"), &format!("{ORDERS}/{order}/payments")).by(BUYER).json(body)
    };
    let Market { pending, paid, cancelled, .. } = *market;
    let method = |name: &str, value: &str| pay(name, pending, &format!(r#"{{"paymentMethod":{value}}}"#));
    let texts = [
        ("empty", r#""""#),
        ("in another case", r#""Card""#),
        ("with a space", r#"" card""#),
        ("the mask of stored values", r#""other""#),
        ("a card number", r#""4111111111111111""#),
    ];
    // Null is omitted, because it is the same as an absent field.
    let mut cases = each(&NO_TEXT[1..], "paymentMethod", method);
    cases.extend(each(&texts, "paymentMethod", method));
    cases.extend([
        pay("an amount chosen by the buyer", pending, r#"{"amount":0.01}"#).invalid(&["amount"]),
        pay("a duplicate field", pending, r#"{"paymentMethod":"card","paymentMethod":"wallet"}"#)
            .invalid(&["paymentMethod"]),
        pay("not an object", pending, "[]").invalid(&["body"]),
        pay("a paid order", paid, "{}").refused(409, "A0409", &[]),
        pay("a cancelled order", cancelled, "{}").refused(409, "A0409", &[]),
        pay("by the seller", pending, "{}").by(SELLER).refused(403, "A0303", &[]),
        pay("by another user", pending, "{}").by(OTHER_USER).refused(404, "A0404", &[]),
        pay("by the same user id in another tenant", pending, "{}").by(FOREIGN_BUYER).refused(
            404,
            "A0404",
            &[],
        ),
        pay("a second time, which returns the existing payment", pending, "{}").unchanged(201),
        pay("a second time, by another method", pending, r#"{"paymentMethod":"alipay"}"#).refused(
            409,
            "A0409",
            &[],
        ),
        pay("a second time, without a payment method", pending, r#"{"paymentMethod":null}"#).unchanged(201),
    ]);
    cases
}

fn steps(market: &Market) -> Vec<Case> {
    let step = |name: &str, order: i64, step: &str| {
        post(&format!("{step}, {name}"), &format!("{ORDERS}/{order}/{step}"))
    };
    let Market { pending, paid, shipped, cancelled, .. } = *market;
    let conflict = |case: Case| case.by(BUYER).refused(409, "A0409", &[]);
    vec![
        step("a reason", pending, "cancel").by(BUYER).json(r#"{"reason":"no"}"#).invalid(&["reason"]),
        step("not an object", pending, "cancel").by(BUYER).json("1").invalid(&["body"]),
        step("off the shelf, by the buyer", pending, "cancel")
            .by(BUYER)
            .json(r#"{"offShelf":true}"#)
            .refused(403, "A0303", &[]),
        step("off the shelf, as a text", pending, "cancel")
            .by(SELLER)
            .json(r#"{"offShelf":"true"}"#)
            .invalid(&["offShelf"]),
        step("a paid order, by the seller", paid, "cancel").by(SELLER).refused(409, "A0409", &[]),
        step("by another user", pending, "cancel").by(OTHER_USER).refused(404, "A0404", &[]),
        step("by the same user id in another tenant", pending, "cancel").by(FOREIGN_BUYER).refused(
            404,
            "A0404",
            &[],
        ),
        step("no token", pending, "cancel").refused(401, "A0301", &[]),
        conflict(step("a paid order", paid, "cancel")),
        conflict(step("a shipped order", shipped, "cancel")),
        conflict(step("a cancelled order", cancelled, "cancel")),
        conflict(step("a pending order", pending, "complete")),
        conflict(step("a paid order", paid, "complete")),
        step("by the seller", shipped, "complete").by(SELLER).refused(403, "A0303", &[]),
        step("by another user", shipped, "complete").by(OTHER_USER).refused(404, "A0404", &[]),
        step("a field", shipped, "complete").by(BUYER).json(r#"{"rating":5}"#).invalid(&["rating"]),
    ]
}

fn reads(market: &Market) -> Vec<Case> {
    let order = format!("{ORDERS}/{}", market.pending);
    vec![
        get("order read by another user", &order).by(OTHER_USER).refused(404, "A0404", &[]),
        get("order read by the same user id in another tenant", &order).by(FOREIGN_BUYER).refused(
            404,
            "A0404",
            &[],
        ),
        get("order read without a token", &order).refused(401, "A0301", &[]),
        get("order read by its buyer", &order).by(BUYER).unchanged(200),
        get("order read by its seller", &order).by(SELLER).unchanged(200),
    ]
}
