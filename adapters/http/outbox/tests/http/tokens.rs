//! Bearer tokens.

use std::time::Duration;

use handover_events::{MAX_ID, TenantId};
use handover_http::{Claims, TokenError, Tokens, WeakSecret};
use serde_json::{Value, json};

use crate::keys::{encoded, hs256};
use crate::{SECRET, start};

const HOUR: Duration = Duration::from_secs(3600);
const USER: i64 = 7;

fn header() -> Value {
    json!({ "alg": "HS256", "typ": "JWT" })
}

fn tokens() -> Tokens {
    Tokens::new(SECRET).unwrap()
}

fn verified(claims: &Value) -> Result<Claims, TokenError> {
    tokens().verify(&hs256(SECRET, &header(), claims), start())
}

fn later() -> i64 {
    start().timestamp() + 60
}

#[test]
fn issued_token_is_verified_with_its_claims() {
    let tenant = TenantId::try_from(3).unwrap();
    let token = tokens().issue(USER, tenant, &["user", "pii"], HOUR, start()).unwrap();
    let expires = start().timestamp() + 3600;
    assert_eq!(
        tokens().verify(&token, start()),
        Ok(Claims { user: USER, tenant, roles: vec!["user".to_owned(), "pii".to_owned()], expires })
    );
}

#[test]
fn token_is_valid_until_leeway_after_exp() {
    let token = tokens().issue(USER, TenantId::DEFAULT, &["user"], HOUR, start()).unwrap();
    assert!(tokens().verify(&token, start() + Duration::from_secs(3629)).is_ok());
    assert_eq!(tokens().verify(&token, start() + Duration::from_secs(3630)), Err(TokenError::Expired));
}

#[test]
fn claim_ids_may_be_numbers_or_text_and_roles_that_are_not_text_are_ignored() {
    let claims = |sub: Value| json!({ "sub": sub, "roles": ["user", "king", 5], "exp": later(), "iss": "other", "aud": "x" });
    for sub in [json!(7), json!("7")] {
        let verified = verified(&claims(sub)).unwrap();
        assert_eq!(
            (verified.user, verified.tenant, verified.roles),
            (USER, TenantId::DEFAULT, vec!["user".to_owned(), "king".to_owned()])
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
        (json!({ "sub": MAX_ID + 1, "exp": exp }), "sub"),
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
    let good = hs256(SECRET, &header(), &claims);
    assert!(tokens().verify(&good, start()).is_ok());
    let (message, signature) = good.rsplit_once('.').unwrap();
    let other_claims = hs256(SECRET, &header(), &json!({ "sub": "8", "exp": later() }));
    let other_signature = other_claims.rsplit_once('.').unwrap().1;
    let cases = [
        hs256(b"another secret of thirty-two bytes", &header(), &claims),
        hs256(SECRET, &json!({ "alg": "none" }), &claims),
        hs256(SECRET, &json!({ "alg": "HS512" }), &claims),
        hs256(SECRET, &json!({ "alg": "RS256" }), &claims),
        hs256(SECRET, &json!({ "typ": "JWT" }), &claims),
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
    let unsigned = format!("{}.{}.", encoded(br#"{"alg":"none"}"#), encoded(claims.to_string().as_bytes()));
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
    let issue = |tokens: &Tokens| tokens.issue(USER, TenantId::DEFAULT, &[], HOUR, start());
    let rotating = tokens();
    let clone = rotating.clone();
    let old = issue(&rotating).unwrap();
    rotating.replace_secrets(Some(NEW), Some(SECRET)).unwrap();
    let new = issue(&clone).unwrap();
    assert_eq!(Tokens::new(NEW).unwrap().verify(&new, start()).map(|claims| claims.user), Ok(USER));
    assert_eq!(tokens().verify(&new, start()), Err(TokenError::WrongSignature));
    for token in [&old, &new] {
        assert_eq!(clone.verify(token, start()).map(|claims| claims.user), Ok(USER));
    }
    assert_eq!(rotating.replace_secrets(Some(NEW), Some(&[7; 31])), Err(WeakSecret));
    assert!(clone.verify(&old, start()).is_ok(), "a refused secret changes nothing");
    rotating.replace_secrets(None, Some(SECRET)).unwrap();
    assert!(clone.verify(&old, start()).is_ok() && issue(&clone) == Err(TokenError::SigningFailed));
    rotating.replace_secrets(Some(NEW), None).unwrap();
    assert_eq!(clone.verify(&old, start()), Err(TokenError::WrongSignature));
}
