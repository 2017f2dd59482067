//! The separate listener for operators' calls, and tokens of another issuer.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use crate::program::{World, eventually, status};

#[test]
fn operators_calls_are_served_on_their_own_listener_only() {
    let world = World::new().set("HANDOVER_HTTP__OPS_LISTEN", "127.0.0.1:0");
    let server = world.serve("");
    let operator = world.token("--user 9 --role operator --role user");
    let operators = server.operators.clone().unwrap();
    for path in ["/api/v1/ops/stats", "/api/v1/ops/outbox", "/metrics"] {
        let request = format!("GET {path}");
        assert_eq!(server.status(&operator, &request), 404, "{path}");
        assert_eq!(status(&operators, &operator, &request), 200, "{path}");
    }
    assert_eq!(server.status(&operator, "GET /api/v1/products"), 200);
    assert_eq!(status(&operators, &operator, "GET /api/v1/products"), 404);
    for address in [&server.address, &operators] {
        assert_eq!(status(address, "", "GET /readyz"), 200);
    }
    assert_eq!(status(&operators, &world.token("--user 9"), "GET /api/v1/ops/stats"), 403);
}

/// A token issuer with a new key.
struct Issuer(Ed25519KeyPair);

impl Issuer {
    fn new() -> Issuer {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Issuer(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    /// Publishes its public key like a key rotation: the new file replaces the old one.
    fn publish(&self, file: &Path) {
        let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k-1", "x": encoded(self.0.public_key().as_ref()) });
        let draft = file.with_extension("new");
        std::fs::write(&draft, json!({ "keys": [key] }).to_string()).unwrap();
        std::fs::rename(draft, file).unwrap();
    }

    fn token(&self, audience: &str) -> String {
        let header = json!({ "alg": "EdDSA", "kid": "k-1" });
        let exp = SystemClock.now().timestamp() + 600;
        let claims = json!({ "sub": "7", "roles": ["user"], "aud": audience, "exp": exp });
        let part = |part: Value| encoded(part.to_string().as_bytes());
        let message = format!("{}.{}", part(header), part(claims));
        let signature = encoded(self.0.sign(message.as_bytes()).as_ref());
        format!("{message}.{signature}")
    }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

const ORDERS: &str = "GET /api/v1/orders";

#[test]
fn tokens_of_another_issuer_are_valid_while_its_key_is_in_the_file() {
    let world =
        World::new().set("HANDOVER_AUTH__JWKS_FILE", "keys.json").set("HANDOVER_AUTH__AUDIENCE", "shop");
    let first = Issuer::new();
    let second = Issuer::new();
    let file = world.path("keys.json");
    first.publish(&file);
    let server = world.serve("");
    let old = first.token("shop");
    let new = second.token("shop");
    assert_eq!(server.status(&old, ORDERS), 200);
    assert_eq!(server.status(&new, ORDERS), 401);
    assert_eq!(server.status(&first.token("another service"), ORDERS), 401);
    // A malformed file does not end the reloading: the next valid file is loaded.
    world.write("keys.json", "{");
    second.publish(&file);
    eventually(|| server.status(&new, ORDERS) == 200);
    assert_eq!(server.status(&old, ORDERS), 401);
    assert!(!world.files().iter().any(|name| name.contains("jwt-secret")), "{:?}", world.files());
    world.run("token --user 7").refused(
        2,
        &[
            "error: cannot sign a token: auth.jwt-secret is not set",
            "get a token from the issuer of the public keys",
        ],
    );
}

#[test]
fn key_file_without_usable_key_or_without_audience_is_refused_at_startup() {
    let serve = "serve --listen 127.0.0.1:0";
    let world = World::new().set("HANDOVER_AUTH__JWKS_FILE", "keys.json");
    world.run(serve).refused(2, &["auth.jwks-file in the environment variable", "the file cannot be read"]);
    world.write("keys.json", r#"{"keys":[]}"#);
    world.run(serve).refused(2, &["the set contains no key for RS256 (RSA) or EdDSA (Ed25519)"]);
    Issuer::new().publish(&world.path("keys.json"));
    world.run(serve).refused(
        2,
        &["the service would accept tokens that the issuer made for other services", "set auth.audience"],
    );
    assert_eq!(world.files(), ["keys.json"]);
}
