//! Bearer tokens.

use std::time::Duration;

use handover_http::{KeySet, Tokens};
use hmac::{Hmac, KeyInit, Mac};
use marketplace::Role;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::world::{HOUR, SECRET, Setup, World, start};

const ORDERS: &str = "/api/v1/orders";

/// A token with this header and these claims, signed with HMAC-SHA256.
pub(crate) fn forged(secret: &[u8], header: &Value, claims: &Value) -> String {
    let message =
        format!("{}.{}", base64url(header.to_string().as_bytes()), base64url(claims.to_string().as_bytes()));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(message.as_bytes());
    format!("{message}.{}", base64url(&mac.finalize().into_bytes()))
}

pub(crate) fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for index in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * index) & 63) as usize]));
        }
    }
    text
}

fn hs256() -> Value {
    json!({ "alg": "HS256", "typ": "JWT" })
}

#[tokio::test(start_paused = true)]
async fn request_without_valid_token_is_401_with_challenge() {
    let world = World::new().await;
    let good = world.token(7, 1, &[Role::User]);
    world.get(ORDERS).header("authorization", &format!("bearer {good}")).send().await.expect(200, "00000");
    let cases = [
        None,
        Some(String::new()),
        Some(good.clone()),
        Some("Bearer ".to_owned()),
        Some(format!("Basic {good}")),
        Some(format!("Bearer {good}x")),
    ];
    for value in cases {
        let request = world.get(ORDERS);
        let request = match &value {
            Some(value) => request.header("authorization", value),
            None => request,
        };
        let response = request.send().await.expect(401, "A0301");
        // Without a token the challenge has no error code (RFC 6750 §3.1).
        let is_refused = value.is_some_and(|value| value.starts_with("Bearer "));
        let challenge = if is_refused { INVALID_TOKEN } else { "Bearer" };
        assert_eq!(response.headers["www-authenticate"], challenge, "{}", response.text);
        assert!(response.data.is_null());
    }
}

const INVALID_TOKEN: &str =
    r#"Bearer error="invalid_token", error_description="the token is not valid or has expired""#;

/// The response does not contain the reason; it is logged (`logs.rs`).
#[tokio::test(start_paused = true)]
async fn every_invalid_token_gets_the_same_response() {
    let world = World::new().await;
    let expired = world.token(7, 1, &[Role::User]);
    tokio::time::advance(HOUR + Duration::from_secs(30)).await;
    let forged = forged(b"another secret of thirty-two bytes", &hs256(), &json!({ "sub": "7", "exp": 1 }));
    for token in [expired.as_str(), forged.as_str(), "no token"] {
        let response = world.get(ORDERS).token(token).send().await.expect(401, "A0301");
        assert_eq!(response.message, "the token is not valid or has expired");
        assert_eq!(response.headers["www-authenticate"], INVALID_TOKEN);
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_roles_are_ignored() {
    let world = World::new().await;
    let exp = start().timestamp() + 60;
    let claims = json!({ "sub": 7, "roles": ["user", "king", 5], "exp": exp });
    let token = forged(SECRET, &hs256(), &claims);
    world.get(ORDERS).token(&token).send().await.expect(200, "00000");
    world.get("/api/v1/ops/stats").token(&token).send().await.expect(403, "A0303");
}

#[tokio::test(start_paused = true)]
async fn api_accepts_tokens_of_external_issuer_and_rejects_forged_tokens() {
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let key = Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap();
    let public_key = key.public_key().as_ref();
    let keys =
        json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "ed-1", "x": base64url(public_key) }] });
    let tokens = Tokens::from_keys(KeySet::parse(&keys.to_string()).unwrap());
    let world = World::with(Setup { tokens: Some(tokens), ..Setup::default() }).await;
    let claims = json!({ "sub": "7", "tenant": 3, "roles": ["platform"], "exp": start().timestamp() + 60 })
        .to_string();
    let header = json!({ "alg": "EdDSA", "kid": "ed-1", "typ": "JWT" }).to_string();
    let message = format!("{}.{}", base64url(header.as_bytes()), base64url(claims.as_bytes()));
    let good = format!("{message}.{}", base64url(key.sign(message.as_bytes()).as_ref()));
    world.get("/api/v1/ops/stats").token(&good).send().await.expect(200, "00000");
    let header = json!({ "alg": "HS256", "kid": "ed-1", "typ": "JWT" });
    let forged = forged(public_key, &header, &serde_json::from_str(&claims).unwrap());
    world.get("/api/v1/ops/stats").token(&forged).send().await.expect(401, "A0301");
}
