//! Keys, signatures and their verification.

use chrono::{DateTime, TimeDelta, Utc};
use handover_webhooks::{
    InvalidKey, KeyPair, Message, PublicKey, Secret, SigningKey, VerifyError, VerifyingKey, verify,
};
use hyper::HeaderMap;
use proptest::prelude::*;
use standardwebhooks::Webhook;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const PRIVATE: &str =
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
const PUBLIC: &str = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=";
/// The message of the test vectors in the libraries of the specification.
const MESSAGE: Message<'_> = Message {
    id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
    timestamp: 1_614_265_330,
    body: br#"{"test": 2432232314}"#,
};
const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const ASYMMETRIC: &str =
    "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==";

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(MESSAGE.timestamp, 0).unwrap()
}

fn secret(text: &str) -> SigningKey {
    SigningKey::Secret(text.parse().unwrap())
}

fn pair(text: &str) -> SigningKey {
    SigningKey::KeyPair(text.parse().unwrap())
}

fn signed(message: &Message<'_>, keys: &[SigningKey]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    message.sign(&mut headers, keys).unwrap();
    headers
}

fn verified(headers: &HeaderMap, body: &[u8], key: &str) -> Result<(), VerifyError> {
    verify(headers, body, &[key.parse().unwrap()], now())
}

#[test]
fn signatures_are_those_of_the_specification() {
    let headers = signed(&MESSAGE, &[secret(SECRET), pair(PRIVATE), secret(OTHER)]);
    assert_eq!(headers["webhook-id"], MESSAGE.id);
    assert_eq!(headers["webhook-timestamp"], "1614265330");
    let signatures: Vec<&str> = headers["webhook-signature"].to_str().unwrap().split(' ').collect();
    assert_eq!(signatures.len(), 3);
    assert_eq!(signatures[..2], [SIGNATURE, ASYMMETRIC]);
    assert_ne!(signatures[2], SIGNATURE);
}

#[test]
fn each_key_verifies_its_own_signature_only() {
    let headers = signed(&MESSAGE, &[secret(SECRET), pair(PRIVATE)]);
    assert_eq!(verified(&headers, MESSAGE.body, SECRET), Ok(()));
    assert_eq!(verified(&headers, MESSAGE.body, PUBLIC), Ok(()));
    assert_eq!(verified(&headers, MESSAGE.body, OTHER), Err(VerifyError::NoMatch));
    let other: String = KeyPair::generate().unwrap().public_key();
    assert_eq!(verified(&headers, MESSAGE.body, &other), Err(VerifyError::NoMatch));
    let either: Vec<VerifyingKey> = [OTHER, SECRET].iter().map(|key| key.parse().unwrap()).collect();
    assert_eq!(verify(&headers, MESSAGE.body, &either, now()), Ok(()));
    assert_eq!(verify(&headers, MESSAGE.body, &[], now()), Err(VerifyError::NoMatch));

    // The version belongs to the signature: one of the other version is skipped.
    let mut swapped = headers;
    let text = format!("v1a,{} v1,{} v2,x nothing", &SIGNATURE[3..], &ASYMMETRIC[4..]);
    swapped.insert("webhook-signature", text.parse().unwrap());
    assert_eq!(verified(&swapped, MESSAGE.body, SECRET), Err(VerifyError::NoMatch));
    assert_eq!(verified(&swapped, MESSAGE.body, PUBLIC), Err(VerifyError::NoMatch));
}

#[test]
fn changed_byte_is_rejected() {
    let headers = signed(&MESSAGE, &[secret(SECRET), pair(PRIVATE)]);
    for key in [SECRET, PUBLIC] {
        for position in 0..MESSAGE.body.len() {
            let mut body = MESSAGE.body.to_vec();
            body[position] ^= 1;
            assert_eq!(verified(&headers, &body, key), Err(VerifyError::NoMatch), "byte {position}");
        }
        for (name, value) in [
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJel"),
            ("webhook-timestamp", "1614265331"),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OI="),
        ] {
            let mut changed = headers.clone();
            changed.insert(name, value.parse().unwrap());
            assert_eq!(verified(&changed, MESSAGE.body, key), Err(VerifyError::NoMatch), "{name}");
        }
    }
}

#[test]
fn timestamp_may_differ_by_five_minutes() {
    let headers = signed(&MESSAGE, &[secret(SECRET)]);
    let keys = [SECRET.parse().unwrap()];
    for (seconds, expected) in
        [(300, Ok(())), (301, Err(VerifyError::TooOld)), (-300, Ok(())), (-301, Err(VerifyError::TooNew))]
    {
        let now = now() + TimeDelta::seconds(seconds);
        assert_eq!(verify(&headers, MESSAGE.body, &keys, now), expected, "{seconds} s");
    }
    for text in ["", "soon", "1614265330.5", "99999999999999999999", "9223372036854775807"] {
        let mut invalid = headers.clone();
        invalid.insert("webhook-timestamp", text.parse().unwrap());
        assert_eq!(verified(&invalid, MESSAGE.body, SECRET), Err(VerifyError::Timestamp), "{text}");
    }
}

#[test]
fn each_header_must_occur_once() {
    let headers = signed(&MESSAGE, &[secret(SECRET)]);
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut repeated = headers.clone();
        repeated.append(name, headers[name].clone());
        let mut missing = headers.clone();
        missing.remove(name);
        for headers in [repeated, missing] {
            let error = verified(&headers, MESSAGE.body, SECRET).unwrap_err();
            assert_eq!(error.to_string(), format!("the request must have exactly one header {name}"));
        }
    }
}

#[test]
fn keys_have_the_text_forms_of_the_specification() {
    let new = Secret::generate().unwrap().reveal();
    assert_eq!(new.parse::<Secret>().unwrap().reveal(), new);
    assert_ne!(Secret::generate().unwrap().reveal(), new);
    let pair = KeyPair::generate().unwrap();
    let copy: KeyPair = pair.reveal().parse().unwrap();
    assert_eq!((copy.reveal(), copy.public_key()), (pair.reveal(), pair.public_key()));
    let pair: KeyPair = PRIVATE.parse().unwrap();
    assert_eq!((pair.reveal().as_str(), pair.public_key().as_str()), (PRIVATE, PUBLIC));
}

#[test]
fn invalid_keys_are_refused() {
    let of_bytes = |bytes: usize| format!("whsec_{}", "AAAA".repeat(bytes / 3));
    for valid in [of_bytes(24), of_bytes(63), SECRET.to_owned()] {
        assert!(valid.parse::<Secret>().is_ok(), "{valid}");
    }
    for invalid in ["", "whsec_", "whsec_%", &SECRET[6..], PUBLIC, &of_bytes(21), &of_bytes(66)] {
        assert_eq!(invalid.parse::<Secret>().unwrap_err(), InvalidKey::Secret, "{invalid}");
    }
    // The public half belongs to another seed; a half is missing; another kind of key.
    let mismatch = PRIVATE.replace("VKIDij2H", "VKIDij2I");
    for invalid in [&mismatch, &PRIVATE[..50], SECRET, PUBLIC, "whsk_"] {
        assert_eq!(invalid.parse::<KeyPair>().unwrap_err(), InvalidKey::PrivateKey, "{invalid}");
    }
    for invalid in [SECRET, PRIVATE, "whpk_", "whpk_AAAA"] {
        assert_eq!(invalid.parse::<PublicKey>().unwrap_err(), InvalidKey::PublicKey, "{invalid}");
    }
}

proptest! {
    /// The crate of the specification computes the same signature.
    #[test]
    fn signature_is_that_of_the_library(
        id in "[a-zA-Z0-9_-]{1,40}", timestamp in 0..4_000_000_000_i64, body in ".{0,200}",
    ) {
        let message = Message { id: &id, timestamp, body: body.as_bytes() };
        let headers = signed(&message, &[secret(SECRET)]);
        let theirs = Webhook::new(SECRET).unwrap().sign(&id, timestamp, body.as_bytes()).unwrap();
        prop_assert_eq!(headers["webhook-signature"].to_str().unwrap(), theirs);
    }
}
