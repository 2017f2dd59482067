//! Operators' calls on a listener of their own, and tokens of others.

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
fn operators_calls_are_on_their_own_listener_alone() {
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

/// Who issues tokens, with a key that nobody has seen before.
struct Issuer(Ed25519KeyPair);

impl Issuer {
    fn new() -> Issuer {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Issuer(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    /// Puts its public key there as one who exchanges keys does: the new file takes the place of the old one.
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
fn tokens_of_others_are_good_as_long_as_their_key_is_in_the_file() {
    let world =
        World::new().set("HANDOVER_AUTH__JWKS_FILE", "keys.json").set("HANDOVER_AUTH__AUDIENCE", "shop");
    let (first, second) = (Issuer::new(), Issuer::new());
    let file = world.path("keys.json");
    first.publish(&file);
    let server = world.serve("");
    let (old, new) = (first.token("shop"), second.token("shop"));
    assert_eq!(server.status(&old, ORDERS), 200);
    assert_eq!(server.status(&new, ORDERS), 401);
    assert_eq!(server.status(&first.token("another service"), ORDERS), 401);
    // A file that cannot be used changes nothing.
    world.write("keys.json", "{");
    second.publish(&file);
    eventually(|| server.status(&new, ORDERS) == 200);
    assert_eq!(server.status(&old, ORDERS), 401);
    assert!(!world.files().iter().any(|name| name.contains("jwt-secret")), "{:?}", world.files());
    world.run("token --user 7").refused(
        2,
        &[
            "error: auth.jwt-secret is not set, and tokens are issued by the owner",
            "ask the issuer for a token",
        ],
    );
}

#[test]
fn keys_that_protect_nothing_are_refused_before_the_start() {
    let serve = "serve --listen 127.0.0.1:0";
    let world = World::new().set("HANDOVER_AUTH__JWKS_FILE", "keys.json");
    world.run(serve).refused(2, &["auth.jwks-file in the environment variable", "the file cannot be read"]);
    world.write("keys.json", r#"{"keys":[]}"#);
    world.run(serve).refused(2, &["it holds no key for RS256 (RSA) or EdDSA (Ed25519)"]);
    Issuer::new().publish(&world.path("keys.json"));
    world.run(serve).refused(
        2,
        &["what their owner issued for other services would be good here too", "set auth.audience"],
    );
    assert_eq!(world.files(), ["keys.json"]);
}
