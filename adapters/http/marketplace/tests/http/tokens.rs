//! Bearer tokens.

use std::time::Duration;

use handover_events::TenantId;
use hmac::{Hmac, KeyInit, Mac};
use marketplace::Role;
use marketplace_domain::UserId;
use marketplace_http::{Claims, TokenError, Tokens, WeakSecret};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::world::{HOUR, SECRET, World, start};

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

fn tokens() -> Tokens {
    Tokens::new(SECRET).unwrap()
}

fn verified(claims: &Value) -> Result<Claims, TokenError> {
    tokens().verify(&forged(SECRET, &hs256(), claims), start())
}

fn later() -> i64 {
    start().timestamp() + 60
}

#[test]
fn issued_token_is_verified_with_its_claims() {
    let user = UserId::try_from(7).unwrap();
    let tenant = TenantId::try_from(3).unwrap();
    let token = tokens().issue(user, tenant, &[Role::User, Role::Pii], HOUR, start()).unwrap();
    let expires = start().timestamp() + 3600;
    assert_eq!(
        tokens().verify(&token, start()),
        Ok(Claims { user, tenant, roles: vec![Role::User, Role::Pii], expires })
    );
}

#[test]
fn token_is_valid_until_leeway_after_exp() {
    let user = UserId::try_from(7).unwrap();
    let token = tokens().issue(user, TenantId::DEFAULT, &[Role::User], HOUR, start()).unwrap();
    assert!(tokens().verify(&token, start() + Duration::from_secs(3629)).is_ok());
    assert_eq!(tokens().verify(&token, start() + Duration::from_secs(3630)), Err(TokenError::Expired));
}

#[test]
fn claim_ids_may_be_numbers_or_text_and_unknown_roles_are_ignored() {
    let claims = |sub: Value| json!({ "sub": sub, "roles": ["user", "king", 5], "exp": later(), "iss": "other", "aud": "x" });
    for sub in [json!(7), json!("7")] {
        let verified = verified(&claims(sub)).unwrap();
        assert_eq!(
            (verified.user.get(), verified.tenant, verified.roles),
            (7, TenantId::DEFAULT, vec![Role::User])
        );
    }
    let tenant = verified(&json!({ "sub": "7", "tenant": "2", "exp": later() })).unwrap();
    assert_eq!((tenant.tenant.get(), tenant.roles), (2, vec![]));
}

#[test]
fn signed_token_with_invalid_claim_is_rejected() {
    let exp = later();
    let cases = [
        (json!({ "sub": "7" }), "exp"),
        (json!({ "sub": "7", "exp": "soon" }), "exp"),
        (json!({ "sub": "7", "exp": null }), "exp"),
        (json!({ "exp": exp }), "sub"),
        (json!({ "sub": "alice", "exp": exp }), "sub"),
        (json!({ "sub": 0, "exp": exp }), "sub"),
        (json!({ "sub": 7.5, "exp": exp }), "sub"),
        (json!({ "sub": "07", "exp": exp }), "sub"),
        (json!({ "sub": "+7", "exp": exp }), "sub"),
        (json!({ "sub": " 7", "exp": exp }), "sub"),
        (json!({ "sub": "7.0", "exp": exp }), "sub"),
        (json!({ "sub": "7e0", "exp": exp }), "sub"),
        (json!({ "sub": "\u{ff17}", "exp": exp }), "sub"),
        (json!({ "sub": "7", "tenant": "01", "exp": exp }), "tenant"),
        (json!({ "sub": "7", "exp": exp.to_string() }), "exp"),
        (json!({ "sub": "7", "exp": 1e300 }), "exp"),
        (json!({ "sub": "7", "tenant": 0, "exp": exp }), "tenant"),
        (json!({ "sub": "7", "roles": "operator", "exp": exp }), "roles"),
        (json!({ "sub": "7", "nbf": exp, "exp": exp }), "nbf"),
    ];
    for (claims, name) in cases {
        assert_eq!(verified(&claims), Err(TokenError::InvalidClaim(name)), "{claims}");
    }
}

/// RFC 7519 §2: a `NumericDate` may have a fraction. Rounding never extends the validity of a token.
#[test]
fn fractional_numeric_dates_are_accepted() {
    let now = start().timestamp();
    let claims = |exp: f64, nbf: f64| json!({ "sub": "7", "exp": now as f64 + exp, "nbf": now as f64 + nbf });
    assert_eq!(verified(&claims(60.75, -1.5)).unwrap().expires, now + 60);
    assert_eq!(verified(&claims(-29.5, 0.0)), Err(TokenError::Expired));
    assert!(verified(&claims(-28.5, 29.5)).is_ok());
    assert_eq!(verified(&claims(60.0, 30.5)), Err(TokenError::InvalidClaim("nbf")));
}

#[test]
fn token_with_wrong_algorithm_or_secret_is_rejected() {
    let claims = json!({ "sub": "7", "roles": ["platform"], "exp": later() });
    let good = forged(SECRET, &hs256(), &claims);
    assert!(tokens().verify(&good, start()).is_ok());
    let (message, signature) = good.rsplit_once('.').unwrap();
    let other_claims = forged(SECRET, &hs256(), &json!({ "sub": "8", "exp": later() }));
    let other_signature = other_claims.rsplit_once('.').unwrap().1;
    let cases = [
        forged(b"another secret of thirty-two bytes", &hs256(), &claims),
        forged(SECRET, &json!({ "alg": "none" }), &claims),
        forged(SECRET, &json!({ "alg": "HS512" }), &claims),
        forged(SECRET, &json!({ "alg": "RS256" }), &claims),
        forged(SECRET, &json!({ "typ": "JWT" }), &claims),
        format!("{message}."),
        message.to_owned(),
        format!("{message}.{other_signature}"),
        format!("{good}.{signature}"),
        good[..good.len() - 4].to_owned(),
        String::new(),
        "..".to_owned(),
    ];
    for token in cases {
        let refused = tokens().verify(&token, start());
        assert!(
            matches!(refused, Err(TokenError::Unrecognized | TokenError::WrongSignature)),
            "{token}: {refused:?}"
        );
    }
    let unsigned =
        format!("{}.{}.", base64url(br#"{"alg":"none"}"#), base64url(claims.to_string().as_bytes()));
    assert_eq!(tokens().verify(&unsigned, start()), Err(TokenError::Unrecognized));
}

#[test]
fn secret_shorter_than_32_bytes_is_rejected() {
    assert_eq!(Tokens::new(&[7; 31]).err(), Some(WeakSecret));
    assert!(Tokens::new(&[7; 32]).is_ok());
}

#[test]
fn previous_secret_verifies_tokens_in_all_clones_but_signs_none() {
    const NEW: &[u8] = b"another secret of at least thirty-two bytes";
    let user = UserId::try_from(7).unwrap();
    let issue = |tokens: &Tokens| tokens.issue(user, TenantId::DEFAULT, &[], HOUR, start());
    let rotating = tokens();
    let clone = rotating.clone();
    let old = issue(&rotating).unwrap();
    rotating.replace_secrets(Some(NEW), Some(SECRET)).unwrap();
    let new = issue(&clone).unwrap();
    assert_eq!(Tokens::new(NEW).unwrap().verify(&new, start()).map(|claims| claims.user), Ok(user));
    assert_eq!(tokens().verify(&new, start()), Err(TokenError::WrongSignature));
    for token in [&old, &new] {
        assert_eq!(clone.verify(token, start()).map(|claims| claims.user), Ok(user));
    }
    assert_eq!(rotating.replace_secrets(Some(NEW), Some(&[7; 31])), Err(WeakSecret));
    assert!(clone.verify(&old, start()).is_ok(), "a refused secret changes nothing");
    rotating.replace_secrets(None, Some(SECRET)).unwrap();
    assert!(clone.verify(&old, start()).is_ok() && issue(&clone) == Err(TokenError::SigningFailed));
    rotating.replace_secrets(Some(NEW), None).unwrap();
    assert_eq!(clone.verify(&old, start()), Err(TokenError::WrongSignature));
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
