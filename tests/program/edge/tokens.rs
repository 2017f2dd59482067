//! Authentication and authorization: tokens that are forged, expired, incomplete, or lack a role.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Sha256, Sha512};

use super::case::{Case, get, post};
use super::market::{BUYER, FOREIGN_BUYER, FOREIGN_OPERATOR, FOREIGN_SELLER, Market, OPERATOR};

const ORDERS: &str = "/api/v1/orders";
const OUTBOX: &str = "/api/v1/ops/outbox";

pub(crate) fn cases(market: &Market) -> Vec<Case> {
    [forged(market), claims(market), headers(market), roles(market)].concat()
}

fn encoded(value: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(value.to_string())
}

/// A token with any header, claims and signature.
fn token(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encoded(header), encoded(claims));
    let signature = sign(message.as_bytes());
    format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

fn hs256(secret: &str) -> impl Fn(&[u8]) -> Vec<u8> {
    move |message| {
        let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.chain_update(message).finalize().into_bytes().to_vec()
    }
}

fn hs512(secret: &str) -> impl Fn(&[u8]) -> Vec<u8> {
    move |message| {
        let mac = Hmac::<Sha512>::new_from_slice(secret.as_bytes()).unwrap();
        mac.chain_update(message).finalize().into_bytes().to_vec()
    }
}

fn in_an_hour() -> i64 {
    chrono::Utc::now().timestamp() + 3_600
}

fn valid_claims() -> Value {
    json!({"sub": BUYER.to_string(), "tenant": 1, "roles": ["user"], "exp": in_an_hour()})
}

fn alg(name: &str) -> Value {
    json!({"alg": name, "typ": "JWT"})
}

/// Reads the caller's orders with this token.
fn bearing(name: &str, token: &str) -> Case {
    get(&format!("token, {name}"), ORDERS).bearing(token)
}

fn refused(case: Case) -> Case {
    case.refused(401, "A0301", &[])
}

fn forged(market: &Market) -> Vec<Case> {
    let secret = market.jwt_secret();
    let claims = valid_claims();
    let valid = token(&alg("HS256"), &claims, hs256(secret));
    let (message, signature) = valid.rsplit_once('.').unwrap();
    let promoted = json!({"sub": "2", "tenant": 1, "roles": ["platform"], "exp": in_an_hour()});
    let header = message.split_once('.').unwrap().0;
    let forged = [
        ("garbage", "garbage".to_owned()),
        ("two dots", "..".to_owned()),
        ("unsigned", format!("{message}.")),
        ("without a signature", message.to_owned()),
        ("algorithm none", token(&alg("none"), &claims, |_| Vec::new())),
        ("algorithm none, signed", token(&alg("none"), &claims, hs256(secret))),
        ("algorithm HS512, signed with HS512", token(&alg("HS512"), &claims, hs512(secret))),
        ("algorithm HS512, signed with HS256", token(&alg("HS512"), &claims, hs256(secret))),
        ("algorithm RS256", token(&alg("RS256"), &claims, hs256(secret))),
        ("no algorithm", token(&json!({"typ": "JWT"}), &claims, hs256(secret))),
        ("another secret", token(&alg("HS256"), &claims, hs256("another secret of more than 32 bytes"))),
        ("the gateway's secret", token(&alg("HS256"), &claims, hs256(market.secrets().nth(1).unwrap()))),
        ("an empty secret", token(&alg("HS256"), &claims, hs256(""))),
        ("claims changed after signing", format!("{header}.{}.{signature}", encoded(&promoted))),
        ("a cut signature", valid[..valid.len() - 2].to_owned()),
        ("one part too many", format!("{valid}.{signature}")),
        ("claims that are not an object", token(&alg("HS256"), &json!([1]), hs256(secret))),
    ];
    let mut cases: Vec<Case> = forged.iter().map(|(name, token)| refused(bearing(name, token))).collect();
    cases.push(bearing("valid, signed by the test", &valid).unchanged(200));
    let fraction = json!({"sub": "2", "exp": in_an_hour() as f64 + 0.5});
    cases.push(
        bearing("with a fraction of a second", &token(&alg("HS256"), &fraction, hs256(secret)))
            .unchanged(200),
    );
    cases
}

fn claims(market: &Market) -> Vec<Case> {
    let signed =
        |name: &str, claims: Value| bearing(name, &token(&alg("HS256"), &claims, hs256(market.jwt_secret())));
    let exp = in_an_hour();
    let wrong = [
        ("expired", json!({"sub": "2", "exp": exp - 7_200})),
        ("expired by more than the clock tolerance", json!({"sub": "2", "exp": exp - 3_600 - 30})),
        ("never expires", json!({"sub": "2"})),
        ("expiry null", json!({"sub": "2", "exp": null})),
        ("expiry is text", json!({"sub": "2", "exp": "tomorrow"})),
        ("not valid yet", json!({"sub": "2", "exp": exp, "nbf": exp - 60})),
        ("no user", json!({"exp": exp})),
        ("user null", json!({"sub": null, "exp": exp})),
        ("user 0", json!({"sub": "0", "exp": exp})),
        ("user -1", json!({"sub": -1, "exp": exp})),
        ("user 2^53", json!({"sub": "9007199254740992", "exp": exp})),
        ("user by name", json!({"sub": "alice", "exp": exp})),
        ("user id with a leading zero", json!({"sub": "02", "exp": exp})),
        ("user id with a sign", json!({"sub": "+2", "exp": exp})),
        ("tenant 0", json!({"sub": "2", "tenant": 0, "exp": exp})),
        ("tenant by name", json!({"sub": "2", "tenant": "acme", "exp": exp})),
        ("roles that are not a list", json!({"sub": "2", "roles": "operator", "exp": exp})),
    ];
    wrong.into_iter().map(|(name, claims)| refused(signed(name, claims))).collect()
}

fn headers(market: &Market) -> Vec<Case> {
    let valid = market.api.token(BUYER);
    let header = |name: &str, value: &str| {
        refused(get(&format!("token, {name}"), ORDERS).header("Authorization", value))
    };
    vec![
        refused(get("token, none", ORDERS)),
        header("an empty header", ""),
        header("without its scheme", &valid),
        header("scheme without a token", "Bearer "),
        header("another scheme", &format!("Basic {valid}")),
        header("two tokens", &format!("Bearer {valid} {valid}")),
        header("two tokens in a list", &format!("Bearer {valid}, Bearer {valid}")),
        header("the same header twice", &format!("Bearer {valid}"))
            .header("authorization", &format!("Bearer {valid}")),
        header("a second header with another scheme", &format!("Bearer {valid}"))
            .header("Authorization", "Basic eA=="),
        header("a second, empty header", &format!("Bearer {valid}")).header("Authorization", ""),
        refused(get("token in a parameter", &format!("{ORDERS}?access_token={valid}"))),
        get("token with a scheme in lower case", ORDERS)
            .header("Authorization", &format!("bearer {valid}"))
            .unchanged(200),
    ]
}

fn roles(market: &Market) -> Vec<Case> {
    let forbidden = |case: Case| case.refused(403, "A0303", &[]);
    let signed = |name: &str, roles: Value| {
        let claims = json!({"sub": "2", "roles": roles, "exp": in_an_hour()});
        get(&format!("role, {name}"), OUTBOX).bearing(&token(
            &alg("HS256"),
            &claims,
            hs256(market.jwt_secret()),
        ))
    };
    let mut cases = vec![
        forbidden(signed("unknown", json!(["superuser"]))),
        forbidden(signed("in upper case", json!(["OPERATOR"]))),
        forbidden(signed("a number", json!([1]))),
        forbidden(signed("none", json!([]))),
        forbidden(signed("may read payloads, but is not an operator", json!(["pii"]))),
        get("role, operator", OUTBOX).by(OPERATOR).unchanged(200),
        get("operator reads events of their own tenant", OUTBOX).by(FOREIGN_OPERATOR).unchanged(200),
        get("operator reads events of another tenant", &format!("{OUTBOX}?tenantId=1"))
            .by(FOREIGN_OPERATOR)
            .refused(404, "A0404", &[]),
        get("another tenant's orders are not found", &format!("{ORDERS}/{}", market.paid))
            .by(FOREIGN_BUYER)
            .refused(404, "A0404", &[]),
        get("another tenant's sales are not found", &format!("{ORDERS}/{}", market.paid))
            .by(FOREIGN_SELLER)
            .refused(404, "A0404", &[]),
    ];
    for path in ["products", "products/1/off-shelf", "products/1/on-shelf", "orders", "orders/1/ship"] {
        let path = format!("/api/v1/{path}");
        cases.push(refused(post(&format!("without a token, {path}"), &path).json("{")));
    }
    cases
}
