//! Encrypted secrets of endpoints.

use chrono::{TimeDelta, Utc};
use handover_outbox::ports::{EndpointId, Sealed, SecretError, WebhookEndpoint, WebhookTransport};
use handover_webhooks::{HttpTransport, KeyPair, Secret, SecretKey, SigningKey};
use uuid::Uuid;

use crate::receiver::{Answer, KEY, Receiver, endpoint, headers, request, transport, transport_with};

const NEW_KEY: &str = "another key of webhooks for these tests";
const TOKEN: &str = "Bearer canary-7f3a";

fn with_headers(transport: &HttpTransport, mut endpoint: WebhookEndpoint) -> WebhookEndpoint {
    let sealed = transport.seal_headers(endpoint.id, &headers(&[("Authorization", TOKEN)])).unwrap();
    endpoint.headers = Some(sealed);
    endpoint
}

fn sealed_texts(endpoint: &WebhookEndpoint) -> Vec<&str> {
    let secrets = endpoint.secrets.iter().map(|secret| &secret.sealed);
    secrets.chain(endpoint.headers.iter().map(|headers| &headers.sealed)).map(|it| it.0.as_str()).collect()
}

fn other_key(endpoint: &WebhookEndpoint) -> String {
    format!("the request was not sent: {}", SecretError::OtherKey(endpoint.id))
}

/// The error of a request, if there was one.
async fn refusal(transport: &HttpTransport, endpoint: &WebhookEndpoint) -> Option<String> {
    transport.send(&request(endpoint)).await.err().map(|error| error.to_string())
}

#[tokio::test]
async fn secrets_are_encrypted_again_with_a_new_key() {
    let receiver = Receiver::start(Answer::status(200)).await;
    let before = transport();
    let (old, _) = endpoint(&before, &receiver.url());
    let mut old = with_headers(&before, old);
    let mut retired = before.new_secret(old.id).unwrap().stored;
    retired.valid_until = Some(Utc::now() + TimeDelta::hours(1));
    old.secrets.push(retired);
    assert_eq!(before.reseal(&old), Ok(None));

    let rotating = transport_with(NEW_KEY, Some(KEY));
    assert_eq!(refusal(&rotating, &old).await, None);
    let new = rotating.reseal(&old).unwrap().unwrap();
    assert_eq!(sealed_texts(&new).len(), 3);
    for (new, old) in sealed_texts(&new).into_iter().zip(sealed_texts(&old)) {
        assert_ne!(new.split('.').nth(1), old.split('.').nth(1), "fingerprint of the key");
    }
    assert_eq!(rotating.reseal(&new), Ok(None));
    let unsealed = |endpoint: &WebhookEndpoint| {
        let secrets = endpoint.secrets.iter().map(|it| (it.public_key.clone(), it.valid_until));
        (secrets.collect::<Vec<_>>(), endpoint.headers.as_ref().unwrap().names.clone(), endpoint.version)
    };
    assert_eq!(unsealed(&new), unsealed(&old));

    let after = transport_with(NEW_KEY, None);
    assert_eq!(refusal(&after, &new).await, None);
    assert_eq!(refusal(&after, &old).await, Some(other_key(&old)));
    assert_eq!(after.reseal(&old), Err(SecretError::OtherKey(old.id)));
    assert_eq!(refusal(&before, &new).await, Some(other_key(&old)));
    // Each request that was sent had both signatures and the header.
    let received = receiver.received();
    assert_eq!(received.len(), 2);
    for request in &received {
        assert_eq!(request.headers["authorization"], TOKEN);
    }
}

#[tokio::test]
async fn sealed_text_belongs_to_its_endpoint_and_purpose() {
    let transport = transport();
    let (mine, _) = endpoint(&transport, "http://127.0.0.1:1/");
    let mine = with_headers(&transport, mine);
    let mut theirs = mine.clone();
    theirs.id = EndpointId(Uuid::from_u128(8));
    theirs.headers = None;
    assert_eq!(refusal(&transport, &theirs).await, Some(other_key(&theirs)));

    let mut exchanged = mine.clone();
    exchanged.secrets[0].sealed = mine.headers.as_ref().unwrap().sealed.clone();
    assert_eq!(refusal(&transport, &exchanged).await, Some(other_key(&mine)));
}

#[tokio::test]
async fn changed_sealed_text_is_refused() {
    let transport = transport();
    let (endpoint, _) = endpoint(&transport, "http://127.0.0.1:1/");
    let sealed = endpoint.secrets[0].sealed.0.clone();
    for position in 0..sealed.len() {
        let mut bytes = sealed.clone().into_bytes();
        bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
        let mut changed = endpoint.clone();
        changed.secrets[0].sealed = Sealed(String::from_utf8(bytes).unwrap());
        assert_eq!(refusal(&transport, &changed).await, Some(other_key(&endpoint)), "byte {position}");
    }
    for text in ["", "v1", "v1..", &sealed[..sealed.len() / 2], &sealed[..20]] {
        let mut changed = endpoint.clone();
        changed.secrets[0].sealed = Sealed(text.to_owned());
        assert_eq!(refusal(&transport, &changed).await, Some(other_key(&endpoint)), "{text}");
    }
}

#[test]
fn equal_texts_are_encrypted_differently() {
    let transport = transport();
    let id = EndpointId(Uuid::from_u128(7));
    let [one, other] = [(); 2].map(|()| transport.seal_headers(id, &headers(&[("x-a", "1")])).unwrap());
    assert_ne!(one.sealed, other.sealed);
}

#[test]
fn names_of_sealed_headers_are_sorted_and_in_lower_case() {
    let pairs = headers(&[("X-Zone", "eu"), ("authorization", TOKEN), ("X-Account", "7")]);
    let sealed = transport().seal_headers(EndpointId(Uuid::from_u128(7)), &pairs).unwrap();
    assert_eq!(sealed.names, ["authorization", "x-account", "x-zone"]);
}

#[test]
fn short_key_is_refused() {
    let error = SecretKey::new(&KEY[..31]).unwrap_err();
    assert_eq!(error.to_string(), "the key must have at least 32 bytes");
    assert!(SecretKey::new(&KEY[..32]).is_ok());
}

#[tokio::test]
async fn no_debug_output_and_no_stored_text_contains_a_secret() {
    let transport = transport();
    let (endpoint, shown) = endpoint(&transport, "http://127.0.0.1:1/");
    let endpoint = with_headers(&transport, endpoint);
    let new = transport.new_secret(endpoint.id).unwrap();
    let pair = KeyPair::generate().unwrap();
    let private = pair.reveal();
    let secret: Secret = shown.parse().unwrap();
    let error = transport.send(&request(&endpoint)).await.unwrap_err();
    let texts = [
        format!("{transport:?} {:?}", SecretKey::new(KEY).unwrap()),
        format!("{endpoint:?} {new:?} {:?}", request(&endpoint)),
        format!("{secret:?} {pair:?} {:?}", SigningKey::Secret(secret.clone())),
        format!("{error:?} {error}"),
        sealed_texts(&endpoint).join(" "),
    ];
    for text in texts {
        for canary in [KEY, TOKEN, &shown[6..], &new.shown[6..], &private[5..40]] {
            assert!(!text.contains(canary), "{text}");
        }
    }
}
