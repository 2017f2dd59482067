//! Decoders of values: they turn text into a value or an error.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use handover_events::{Envelope, Json};
use handover_http::{KeySet, TokenRules, Tokens};
use handover_runtime::Explanation;
use handover_runtime::config::{ConfigError, Configuration, Sources};
use hmac::{Hmac, KeyInit, Mac};
use marketplace_domain::{EventBody, EventKind};
use marketplace_wiring::settings::Config;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::edge::{SECRET, now};
use crate::samples::KEYS;

/// Parses an envelope and checks that the envelope and its typed payload are serialized to an equal value.
pub(crate) fn envelope(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(read) = Envelope::parse(text) else { return };
    assert_eq!(Envelope::parse(&read.to_json()).as_ref(), Ok(&read), "{text}");
    let Ok(body) = EventBody::of(&read) else { return };
    let event_type: EventKind = read.event_type.parse().unwrap();
    let payload = Json::parse(&body.to_json()).unwrap();
    assert_eq!(EventBody::parse(event_type, &payload), Ok(body), "{text}");
}

/// Verifies a bearer token and checks that it is rejected, because no input is signed with the program's own secret or
/// a known key.
pub(crate) fn token(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let own = Tokens::new(SECRET).unwrap();
    let with_others = own.clone().with_keys(KeySet::parse(KEYS).unwrap());
    for tokens in [own, with_others] {
        if let Ok(claims) = tokens.verify(text, now()) {
            panic!("accepted {text}: {claims:?}");
        }
    }
}

/// Verifies a correctly signed token with these claims and checks that an accepted token has a user and a tenant and
/// has not expired.
pub(crate) fn claims(bytes: &[u8]) {
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
    let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(bytes));
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).unwrap();
    mac.update(message.as_bytes());
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()));
    let strict = TokenRules {
        audience: Some("handover".to_owned()),
        issuer: Some("us".to_owned()),
        ..TokenRules::default()
    };
    for rules in [TokenRules::default(), strict] {
        let leeway = i64::try_from(rules.leeway.as_secs()).unwrap();
        let tokens = Tokens::new(SECRET).unwrap().with_rules(rules);
        let Ok(claims) = tokens.verify(&token, now()) else { continue };
        assert!(claims.user > 0 && claims.tenant.get() > 0);
        assert!(claims.expires > now().timestamp() - leeway, "{claims:?}");
    }
}

/// Parses a key set and checks that none of its keys verifies a fabricated signature.
pub(crate) fn keys(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(keys) = KeySet::parse(text) else { return };
    assert!(keys.ids().next().is_some_and(|id| !id.is_empty()), "{text}");
    let tokens = Tokens::from_keys(keys.clone());
    for id in keys.ids() {
        for algorithm in ["RS256", "EdDSA", "HS256"] {
            let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let header = part(json!({ "alg": algorithm, "kid": id }));
            let claims = part(json!({ "sub": 7, "exp": 4_000_000_000_u64 }));
            // These bytes are not a valid Ed25519 signature: the second half is not below the order of the group.
            let token = format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode([0x2a; 64]));
            assert!(tokens.verify(&token, now()).is_err(), "{text}");
        }
    }
}

/// Loads a configuration from a file and from variables, and checks that an accepted configuration can be shown and a
/// rejected one has an explanation.
pub(crate) fn config(bytes: &[u8]) {
    thread_local! {
        static FOLDER: tempfile::TempDir = tempfile::tempdir().unwrap();
    }
    let file: PathBuf = FOLDER.with(|folder| folder.path().join("handover.toml"));
    std::fs::write(&file, bytes).unwrap();
    assert_accepted_or_explained(&Sources { file: Some(file), ..Sources::default() });
    let lines = bytes.split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
    let variables: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once('=').map(|(name, value)| (variable(name), value.to_owned())))
        .collect();
    assert_accepted_or_explained(&Sources { variables, ..Sources::default() });
}

/// The environment variable of a key: `order.timeout.sweep-batch` is `HANDOVER_ORDER__TIMEOUT__SWEEP_BATCH`.
fn variable(key: &str) -> String {
    format!("HANDOVER_{}", key.trim().replace('.', "__").replace('-', "_").to_ascii_uppercase())
}

fn assert_accepted_or_explained(sources: &Sources) {
    match Config::load(sources) {
        Ok(_) => assert!(Config::describe(sources).errors.is_none()),
        Err(errors) => errors.iter().for_each(assert_explained),
    }
}

fn assert_explained(error: &ConfigError) {
    let Explanation { what, why, remedy } = error.explanation();
    for text in [what, why, remedy] {
        assert!(!text.trim().is_empty(), "{error:?}");
    }
}
