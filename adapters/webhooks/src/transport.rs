//! Requests to endpoints.

use std::borrow::Cow;
use std::collections::BTreeMap;

use async_trait::async_trait;
use handover_egress::{EgressClient, UrlRules};
use handover_outbox::ports::{
    EndpointHeaders, EndpointId, EndpointSecret, NewSecret, SecretError, SendError, WebhookEndpoint,
    WebhookRequest, WebhookResponse, WebhookTransport,
};
use hyper::HeaderMap;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use uuid::Uuid;

use crate::headers::static_header;
use crate::keys::{KeyPair, Secret, SigningKey};
use crate::secrets::{Purpose, SecretKeys};
use crate::signature::Message;

/// Marks a request whose event an operator asked to send again.
const REDELIVERY: HeaderName = HeaderName::from_static("handover-redelivery");

/// A word of a static header with fewer bytes is not replaced in responses: it would occur by chance.
const MIN_SECRET_BYTES: usize = 4;
const REPLACEMENT: &str = "***";

/// Sends signed requests over HTTP.
///
/// Its errors do not reveal which ports of a refused address are open, because no connection is made to them.
#[derive(Debug)]
pub struct HttpTransport {
    client: EgressClient,
    rules: UrlRules,
    keys: SecretKeys,
}

impl HttpTransport {
    /// Creates a transport. The client and the rules should have the same networks.
    pub fn new(client: EgressClient, rules: UrlRules, keys: SecretKeys) -> HttpTransport {
        HttpTransport { client, rules, keys }
    }

    /// The headers of a request, with its signatures.
    fn headers(
        &self,
        request: &WebhookRequest<'_>,
        static_headers: &BTreeMap<String, String>,
    ) -> Result<HeaderMap, SendError> {
        let mut headers = HeaderMap::new();
        for (name, value) in static_headers {
            let (name, value) = static_header(name, value).map_err(SendError::no_response)?;
            headers.insert(name, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let agent = concat!("handover/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        if request.is_redelivery {
            headers.insert(REDELIVERY, HeaderValue::from_static("true"));
        }
        let message = Message {
            id: &webhook_id(&request.message_id),
            timestamp: request.at.timestamp(),
            body: request.body.as_bytes(),
        };
        let keys = self.signing_keys(request)?;
        message.sign(&mut headers, &keys).map_err(|_| {
            SendError::NoResponse(format!("the message id {:?} is not a header value", request.message_id))
        })?;
        Ok(headers)
    }

    fn static_headers(&self, endpoint: &WebhookEndpoint) -> Result<BTreeMap<String, String>, SecretError> {
        let Some(headers) = &endpoint.headers else { return Ok(BTreeMap::new()) };
        let text = self.keys.open(endpoint.id, Purpose::Headers, &headers.sealed)?;
        serde_json::from_str(&text).map_err(|_| SecretError::OtherKey(endpoint.id))
    }

    /// The keys of every secret that is valid at the time of the request.
    fn signing_keys(&self, request: &WebhookRequest<'_>) -> Result<Vec<SigningKey>, SecretError> {
        let endpoint = request.endpoint;
        let mut keys = Vec::new();
        for secret in &endpoint.secrets {
            if secret.valid_until.is_some_and(|until| until <= request.at) {
                continue;
            }
            let (secret, pair) = self.open_secret(endpoint.id, secret)?;
            keys.push(SigningKey::Secret(secret));
            if endpoint.signs_asymmetrically {
                keys.push(SigningKey::KeyPair(pair));
            }
        }
        Ok(keys)
    }

    fn open_secret(
        &self,
        endpoint: EndpointId,
        secret: &EndpointSecret,
    ) -> Result<(Secret, KeyPair), SecretError> {
        let text = self.keys.open(endpoint, Purpose::Secret, &secret.sealed)?;
        let keys =
            text.split_once(' ').and_then(|(secret, pair)| Some((secret.parse().ok()?, pair.parse().ok()?)));
        keys.ok_or(SecretError::OtherKey(endpoint))
    }
}

/// The header `webhook-id` of an event: its id, or the UUIDv5 (namespace OID) of an id that contains a dot, because dots
/// separate the parts of the signed content.
fn webhook_id(event: &str) -> Cow<'_, str> {
    if event.contains('.') {
        Uuid::new_v5(&Uuid::NAMESPACE_OID, event.as_bytes()).to_string().into()
    } else {
        event.into()
    }
}

/// A response without the values of static headers, for receivers that return the request: responses are stored. Each word
/// of a value that is long enough for a secret is replaced.
fn without_headers<'a>(body: &'a [u8], headers: &BTreeMap<String, String>) -> Cow<'a, [u8]> {
    let words = headers.values().flat_map(|value| value.split_whitespace());
    words.filter(|word| word.len() >= MIN_SECRET_BYTES).fold(Cow::Borrowed(body), |body, word| {
        let text = String::from_utf8_lossy(&body);
        if text.contains(word) { Cow::Owned(text.replace(word, REPLACEMENT).into_bytes()) } else { body }
    })
}

#[async_trait]
impl WebhookTransport for HttpTransport {
    fn check_url(&self, url: &str) -> Result<(), String> {
        self.rules.check(url).map(drop).map_err(|refused| refused.to_string())
    }

    fn check_header(&self, name: &str, value: &str) -> Result<(), String> {
        static_header(name, value).map(drop)
    }

    fn new_secret(&self, endpoint: EndpointId) -> Result<NewSecret, SecretError> {
        let secret = Secret::generate().map_err(|_| SecretError::NoRandomness)?;
        let pair = KeyPair::generate().map_err(|_| SecretError::NoRandomness)?;
        let shown = secret.reveal();
        let sealed = self.keys.seal(endpoint, Purpose::Secret, &format!("{shown} {}", pair.reveal()))?;
        let stored = EndpointSecret { sealed, public_key: pair.public_key(), valid_until: None };
        Ok(NewSecret { shown, stored })
    }

    fn seal_headers(
        &self,
        endpoint: EndpointId,
        headers: &BTreeMap<String, String>,
    ) -> Result<EndpointHeaders, SecretError> {
        let headers: BTreeMap<String, &String> =
            headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let text = serde_json::json!(headers).to_string();
        let sealed = self.keys.seal(endpoint, Purpose::Headers, &text)?;
        Ok(EndpointHeaders { names: headers.into_keys().collect(), sealed })
    }

    fn reseal(&self, endpoint: &WebhookEndpoint) -> Result<Option<WebhookEndpoint>, SecretError> {
        let mut resealed = endpoint.clone();
        let secrets = resealed.secrets.iter_mut().map(|secret| (Purpose::Secret, &mut secret.sealed));
        let headers = resealed.headers.iter_mut().map(|headers| (Purpose::Headers, &mut headers.sealed));
        let mut is_changed = false;
        for (purpose, sealed) in secrets.chain(headers) {
            if let Some(current) = self.keys.reseal(endpoint.id, purpose, sealed)? {
                *sealed = current;
                is_changed = true;
            }
        }
        Ok(is_changed.then_some(resealed))
    }

    async fn send(&self, request: &WebhookRequest<'_>) -> Result<WebhookResponse, SendError> {
        let target = self
            .rules
            .check(&request.endpoint.url)
            .map_err(|refused| SendError::NoResponse(format!("refused: {refused}")))?;
        let static_headers = self.static_headers(request.endpoint)?;
        let headers = self.headers(request, &static_headers)?;
        let body = Bytes::copy_from_slice(request.body.as_bytes());
        let response = self
            .client
            .post(&target, headers, body, request.deadline)
            .await
            .map_err(SendError::no_response)?;
        let retry_after = response.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        Ok(WebhookResponse {
            status: response.status.as_u16(),
            retry_after: retry_after.map(str::to_owned),
            body: without_headers(&response.body, &static_headers).into_owned(),
        })
    }
}
