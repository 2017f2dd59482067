//! Tokens under the keys of others: RS256 and EdDSA by a JSON Web Key Set, and the ways around it.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use handover_events::TenantId;
use hmac::{Hmac, KeyInit, Mac};
use marketplace::Role;
use marketplace_domain::UserId;
use marketplace_http::{BadKeys, KeySet, TokenError, TokenRules, Tokens};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::world::{SECRET, Setup, World, start};

const RSA: &str = "rsa-1";
const ED: &str = "ed-1";

/// Who issues tokens: an RSA key, made by `openssl genpkey` for these tests alone, and a new Ed25519 key.
struct Issuer {
    rsa: RsaKeyPair,
    ed: Ed25519KeyPair,
}

impl Issuer {
    fn new() -> Issuer {
        Issuer::with(include_bytes!("issuer.rsa.der"))
    }

    fn stranger() -> Issuer {
        Issuer::with(include_bytes!("stranger.rsa.der"))
    }

    fn with(rsa: &[u8]) -> Issuer {
        let ed = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let ed = Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap();
        Issuer { rsa: RsaKeyPair::from_der(rsa).unwrap(), ed }
    }

    fn numbers(&self) -> PublicKeyComponents<Vec<u8>> {
        PublicKeyComponents::from(self.rsa.public())
    }

    fn rsa_key(&self) -> Value {
        let PublicKeyComponents { n, e } = self.numbers();
        json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "kid": RSA, "n": encoded(&n), "e": encoded(&e) })
    }

    fn ed_key(&self) -> Value {
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": ED, "x": encoded(self.ed.public_key().as_ref()) })
    }

    fn keys(&self) -> KeySet {
        parsed(&[self.rsa_key(), self.ed_key()]).unwrap()
    }

    fn rs256(&self, header: &Value, claims: &Value) -> String {
        token(header, claims, |message| {
            let mut signature = vec![0; self.rsa.public().modulus_len()];
            self.rsa.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
            signature
        })
    }

    fn ps256(&self, header: &Value, claims: &Value) -> String {
        token(header, claims, |message| {
            let mut signature = vec![0; self.rsa.public().modulus_len()];
            self.rsa.sign(&RSA_PSS_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
            signature
        })
    }

    fn eddsa(&self, header: &Value, claims: &Value) -> String {
        token(header, claims, |message| self.ed.sign(message).as_ref().to_vec())
    }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn parsed(keys: &[Value]) -> Result<KeySet, BadKeys> {
    KeySet::parse(&json!({ "keys": keys }).to_string())
}

fn token(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let [header, claims] = [header, claims].map(|part| encoded(part.to_string().as_bytes()));
    let message = format!("{header}.{claims}");
    let signature = encoded(&sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn hs256(secret: &[u8], header: &Value, claims: &Value) -> String {
    token(header, claims, |message| {
        let mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        mac.chain_update(message).finalize().into_bytes().to_vec()
    })
}

fn header(alg: &str, kid: &str) -> Value {
    json!({ "alg": alg, "kid": kid, "typ": "JWT" })
}

/// Everything an attacker could want to be.
fn claims() -> Value {
    json!({ "sub": "7", "tenant": 3, "roles": ["platform"], "exp": start().timestamp() + 60 })
}

#[test]
fn tokens_are_verified_by_the_key_they_name_in_its_own_way() {
    let issuer = Issuer::new();
    let tokens = Tokens::of_keys(issuer.keys());
    for token in
        [issuer.rs256(&header("RS256", RSA), &claims()), issuer.eddsa(&header("EdDSA", ED), &claims())]
    {
        let verified = tokens.verify(&token, start()).unwrap();
        assert_eq!((verified.user.get(), verified.tenant.get()), (7, 3));
        assert_eq!(verified.roles, [Role::Platform]);
    }
}

#[test]
fn our_own_tokens_are_good_beside_them_if_there_is_a_secret() {
    let issuer = Issuer::new();
    let own = Tokens::new(SECRET).unwrap();
    let issue = |tokens: &Tokens| {
        let user = UserId::try_from(7).unwrap();
        tokens.issue(user, TenantId::DEFAULT, &[Role::User], Duration::from_secs(60), start())
    };
    let token = issue(&own).unwrap();
    let both = own.and_keys(issuer.keys());
    assert!(both.verify(&token, start()).is_ok());
    assert!(both.verify(&issuer.eddsa(&header("EdDSA", ED), &claims()), start()).is_ok());
    let others = Tokens::of_keys(issuer.keys());
    assert_eq!(others.verify(&token, start()), Err(TokenError::NotOurs));
    assert_eq!(issue(&others), Err(TokenError::NotSigned), "who only verifies signs nothing");
}

#[test]
fn every_way_around_the_keys_is_refused() {
    let (issuer, stranger) = (Issuer::new(), Issuer::stranger());
    let good = issuer.rs256(&header("RS256", RSA), &claims());
    let (message, signature) = good.rsplit_once('.').unwrap();
    let mut attacks: Vec<(String, String)> = vec![
        ("a key that nobody knows".into(), issuer.rs256(&header("RS256", "rsa-2"), &claims())),
        ("no key named".into(), issuer.rs256(&json!({ "alg": "RS256" }), &claims())),
        ("no name of a key".into(), issuer.rs256(&header("RS256", ""), &claims())),
        ("a path as a key".into(), hs256(b"", &header("HS256", "../../dev/null"), &claims())),
        ("the other key".into(), issuer.rs256(&header("RS256", ED), &claims())),
        ("the other key and its way".into(), issuer.rs256(&header("EdDSA", ED), &claims())),
        ("another's way with this key".into(), issuer.eddsa(&header("EdDSA", RSA), &claims())),
        ("a stranger's RSA key".into(), stranger.rs256(&header("RS256", RSA), &claims())),
        ("a stranger's Ed25519 key".into(), stranger.eddsa(&header("EdDSA", ED), &claims())),
        ("RSA-PSS".into(), issuer.ps256(&header("PS256", RSA), &claims())),
        ("RSA-PSS called RS256".into(), issuer.ps256(&header("RS256", RSA), &claims())),
        ("RS256 called RS384".into(), issuer.rs256(&header("RS384", RSA), &claims())),
        ("no algorithm".into(), issuer.rs256(&json!({ "kid": RSA }), &claims())),
        ("algorithm none".into(), token(&header("none", RSA), &claims(), |_| Vec::new())),
        ("algorithm NONE".into(), token(&header("NONE", RSA), &claims(), |_| Vec::new())),
        ("no signature".into(), format!("{message}.")),
        ("half a signature".into(), format!("{message}.{}", &signature[..signature.len() / 2])),
        ("an extension to be understood".into(), {
            let header = json!({ "alg": "RS256", "kid": RSA, "crit": ["exp"] });
            issuer.rs256(&header, &claims())
        }),
        ("a key of its own".into(), {
            let mut own = header("RS256", "mine");
            own["jwk"] = stranger.rsa_key();
            stranger.rs256(&own, &claims())
        }),
        ("a key of its own under a known name".into(), {
            let mut own = header("RS256", RSA);
            own["jwk"] = stranger.rsa_key();
            own["jku"] = json!("https://stranger.example/keys.json");
            stranger.rs256(&own, &claims())
        }),
    ];
    // RFC 8725 §2.1: a public key, in any form, taken for the secret of HS256.
    let pem = |der: &[u8]| {
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
    };
    let rsa = issuer.rsa.public().as_ref().to_vec();
    let ed = issuer.ed.public_key().as_ref().to_vec();
    let known: [Vec<u8>; 8] = [
        rsa.clone(),
        pem(&rsa).into_bytes(),
        issuer.numbers().n,
        issuer.rsa_key().to_string().into_bytes(),
        ed.clone(),
        pem(&ed).into_bytes(),
        encoded(&ed).into_bytes(),
        Vec::new(),
    ];
    for (n, secret) in known.iter().enumerate() {
        for (named, header) in
            [("", json!({ "alg": "HS256" })), (RSA, header("HS256", RSA)), (ED, header("HS256", ED))]
        {
            let forged = hs256(secret, &header, &claims());
            attacks.push((format!("public key {n} as the secret, with the name {named:?}"), forged));
        }
    }
    // And our own secret is for tokens that name no key.
    attacks.push(("our secret under a key's name".into(), hs256(SECRET, &header("HS256", RSA), &claims())));
    for tokens in [Tokens::of_keys(issuer.keys()), Tokens::new(SECRET).unwrap().and_keys(issuer.keys())] {
        assert!(tokens.verify(&good, start()).is_ok());
        for (name, token) in &attacks {
            let refused = tokens.verify(token, start());
            let is_refused = matches!(refused, Err(TokenError::NotOurs | TokenError::WrongSignature));
            assert!(is_refused, "{name}: {refused:?}");
        }
    }
}

#[test]
fn new_keys_are_those_of_every_clone_and_the_old_ones_are_over() {
    let (before, after) = (Issuer::new(), Issuer::stranger());
    let tokens = Tokens::of_keys(before.keys());
    let clone = tokens.clone();
    let old = before.rs256(&header("RS256", RSA), &claims());
    let new = after.rs256(&header("RS256", RSA), &claims());
    assert!(clone.verify(&old, start()).is_ok() && clone.verify(&new, start()).is_err());
    tokens.trust(after.keys());
    assert!(clone.verify(&new, start()).is_ok() && clone.verify(&old, start()).is_err());
}

#[test]
fn issuer_and_audience_are_asked_for_where_they_are_set() {
    let rules = TokenRules {
        audience: Some("shop".into()),
        issuer: Some("https://id.example".into()),
        ..TokenRules::default()
    };
    let tokens = Tokens::new(SECRET).unwrap().under(rules);
    let verified = |changed: Value| {
        let mut claims = claims();
        claims["iss"] = json!("https://id.example");
        claims["aud"] = json!("shop");
        for (name, value) in changed.as_object().unwrap() {
            claims[name] = value.clone();
        }
        tokens.verify(&hs256(SECRET, &json!({ "alg": "HS256" }), &claims), start()).map(|_| ())
    };
    assert_eq!(verified(json!({})), Ok(()));
    assert_eq!(verified(json!({ "aud": ["other", "shop"] })), Ok(()));
    for iss in [
        json!(null),
        json!("https://id.example/"),
        json!("HTTPS://ID.EXAMPLE"),
        json!(["https://id.example"]),
    ] {
        assert_eq!(verified(json!({ "iss": iss })), Err(TokenError::WrongIssuer), "{iss}");
    }
    for aud in [json!(null), json!(""), json!("shop2"), json!(["other"]), json!([]), json!({ "shop": 1 })] {
        assert_eq!(verified(json!({ "aud": aud })), Err(TokenError::WrongAudience), "{aud}");
    }
    let user = UserId::try_from(7).unwrap();
    let own = tokens.issue(user, TenantId::DEFAULT, &[], Duration::from_secs(60), start()).unwrap();
    assert!(tokens.verify(&own, start()).is_ok(), "our own say both");
}

#[test]
fn clocks_may_be_apart_by_the_leeway_and_no_more_and_a_token_must_expire() {
    let tokens = |leeway| {
        let rules = TokenRules { leeway: Duration::from_secs(leeway), ..TokenRules::default() };
        Tokens::new(SECRET).unwrap().under(rules)
    };
    let now = start().timestamp();
    let verified = |leeway, exp: i64, nbf: i64| {
        let claims = json!({ "sub": "7", "exp": now + exp, "nbf": now + nbf });
        tokens(leeway).verify(&hs256(SECRET, &json!({ "alg": "HS256" }), &claims), start()).map(|_| ())
    };
    assert_eq!(TokenRules::default().leeway, Duration::from_secs(30));
    for (leeway, exp, nbf, expected) in [
        (30, -29, 0, Ok(())),
        (30, -30, 0, Err(TokenError::Expired)),
        (0, 1, 0, Ok(())),
        (0, 0, 0, Err(TokenError::Expired)),
        (30, 60, 30, Ok(())),
        (30, 60, 31, Err(TokenError::BadClaim("nbf"))),
    ] {
        assert_eq!(verified(leeway, exp, nbf), expected, "{leeway} {exp} {nbf}");
    }
    let for_ever = hs256(SECRET, &json!({ "alg": "HS256" }), &json!({ "sub": "7" }));
    assert_eq!(tokens(300).verify(&for_ever, start()), Err(TokenError::BadClaim("exp")));
}

#[test]
fn a_set_of_keys_that_protects_nothing_is_refused() {
    let issuer = Issuer::new();
    let with = |mut key: Value, name: &str, value: Value| {
        key[name] = value;
        key
    };
    let without = |mut key: Value, name: &str| {
        key.as_object_mut().unwrap().remove(name);
        key
    };
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[1]}"#, "-----BEGIN PUBLIC KEY-----"] {
        assert_eq!(KeySet::parse(text).err(), Some(BadKeys::NoSet), "{text}");
    }
    let short = encoded(&issuer.numbers().n[..255]);
    let unusable = || Some(BadKeys::Unusable(RSA.into()));
    let cases = [
        (vec![], Some(BadKeys::Empty)),
        (vec![with(issuer.rsa_key(), "d", json!("x"))], Some(BadKeys::Private(RSA.into()))),
        (vec![without(issuer.rsa_key(), "kid")], Some(BadKeys::WithoutId)),
        (vec![issuer.rsa_key(), with(issuer.ed_key(), "kid", json!(RSA))], Some(BadKeys::Twice(RSA.into()))),
        (vec![with(issuer.rsa_key(), "n", json!(short))], unusable()),
        (vec![with(issuer.rsa_key(), "n", json!("not/base64url"))], unusable()),
        (vec![without(issuer.rsa_key(), "e")], unusable()),
        (vec![with(issuer.ed_key(), "x", json!("AAAA"))], Some(BadKeys::Unusable(ED.into()))),
        // For something else: they are left out, and then nothing is left.
        (vec![with(issuer.rsa_key(), "use", json!("enc"))], Some(BadKeys::Empty)),
        (vec![with(issuer.rsa_key(), "alg", json!("RS512"))], Some(BadKeys::Empty)),
        (vec![with(issuer.rsa_key(), "key_ops", json!(["encrypt"]))], Some(BadKeys::Empty)),
        (vec![with(issuer.ed_key(), "crv", json!("X25519"))], Some(BadKeys::Empty)),
        (vec![json!({ "kty": "oct", "kid": "s", "k": encoded(SECRET) })], Some(BadKeys::Empty)),
        (
            vec![json!({ "kty": "EC", "crv": "P-256", "kid": "p", "x": "AA", "y": "AA" })],
            Some(BadKeys::Empty),
        ),
    ];
    for (keys, refused) in cases {
        assert_eq!(parsed(&keys).err(), refused, "{keys:?}");
    }
    let secret = json!({ "kty": "oct", "kid": "s", "k": encoded(SECRET) });
    let mixed = parsed(&[secret, issuer.ed_key()]).unwrap();
    assert_eq!(mixed.ids().collect::<Vec<_>>(), [ED], "what is not for us is left out");
    assert!(!format!("{mixed:?}").contains(&encoded(issuer.ed.public_key().as_ref())));
}

#[tokio::test(start_paused = true)]
async fn the_api_takes_what_the_issuer_signed_and_nothing_that_looks_like_it() {
    let issuer = Issuer::new();
    let world = World::with(Setup { tokens: Some(Tokens::of_keys(issuer.keys())), ..Setup::default() }).await;
    let good = issuer.eddsa(&header("EdDSA", ED), &claims());
    world.get("/api/v1/ops/stats").token(&good).send().await.expect(200, "00000");
    let forged = hs256(issuer.ed.public_key().as_ref(), &header("HS256", ED), &claims());
    world.get("/api/v1/ops/stats").token(&forged).send().await.expect(401, "A0301");
}
