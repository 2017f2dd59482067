//! Policies that limit the declared queues, read from the management API. AMQP shows no policy, so this is the only use of
//! that API; everything else works without it.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use handover_outbox::topology::{QueueSpec, Topology};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::settings::{ManagementAddress, RabbitSettings};
use crate::transport::dial_port;

/// Name of the field with the effective policy. It is one of the statistics, which the server reports every five seconds: it
/// is absent for a queue that was just declared, and `[]` for one without a policy.
const DEFINITION: &str = "effective_policy_definition";
/// Longest time for which a missing [`DEFINITION`] is awaited, and the pause between two reads.
const STATISTICS_WITHIN: Duration = Duration::from_secs(15);
const STATISTICS_PAUSE: Duration = Duration::from_millis(500);

/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

/// A setting of a policy that removes messages or queues, or that limits deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitingPolicy {
    /// Name of the policy, and of the operator policy if there is one.
    pub policy: String,
    /// Name of the setting, such as `max-length`.
    pub setting: &'static str,
    /// Value of the setting.
    pub value: String,
    /// Consequence for the messages of these queues.
    pub effect: &'static str,
    /// Queues of the topology that the policy applies to.
    pub queues: Vec<String>,
}

/// Reason why the policies cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagementError {
    /// Nothing accepts connections at this address.
    #[error("{address} does not accept connections: {why}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// Error of the connection.
        why: String,
    },
    /// The user may not use the management API.
    #[error("{address} refuses the user {user}")]
    Denied {
        /// Host and port.
        address: String,
        /// Name of the user.
        user: String,
    },
    /// The response is not that of the management API.
    #[error("{address} does not respond like the management API of RabbitMQ: {why}")]
    Unusable {
        /// Host and port.
        address: String,
        /// Reason.
        why: String,
    },
}

/// Settings of policies, with their effect on a queue; `delivery-limit` affects quorum queues only.
const LIMITS: [(&str, &str); 6] = [
    ("message-ttl", "messages that wait longer are removed before a consumer has processed them"),
    ("max-length", "with more messages, the server removes or refuses messages"),
    ("max-length-bytes", "with larger messages, the server removes or refuses messages"),
    ("delivery-limit", "a message that is delivered more often is removed, also if only its process ended"),
    ("expires", "the queue is deleted with its messages when it has no consumer for this time"),
    (
        "dead-letter-exchange",
        "dead letters leave the dead-letter queue for this exchange when they expire or exceed a limit",
    ),
];

/// Reads the policies that limit queues of this topology, sorted by policy and setting. Queues that do not exist are
/// skipped. The user of the connection needs the tag `management`.
pub async fn limiting_policies(
    settings: &RabbitSettings,
    topology: &Topology,
) -> Result<Vec<LimitingPolicy>, ManagementError> {
    let address = settings.management_address();
    let deadline = Instant::now() + STATISTICS_WITHIN;
    let reading = async {
        let mut client = Client::connect(settings, &address).await?;
        let mut found: Vec<LimitingPolicy> = Vec::new();
        for spec in &topology.queues {
            let queue = client.queue_with_policy(&settings.uri.vhost, &spec.name, deadline).await?;
            let Some(queue) = queue else { continue };
            for limit in limits_of(spec, &queue) {
                let same = |other: &&mut LimitingPolicy| {
                    (&other.policy, other.setting, &other.value)
                        == (&limit.policy, limit.setting, &limit.value)
                };
                match found.iter_mut().find(same) {
                    Some(other) => other.queues.extend(limit.queues),
                    None => found.push(limit),
                }
            }
        }
        found.sort_by(|left, right| (&left.policy, left.setting).cmp(&(&right.policy, right.setting)));
        Ok(found)
    };
    let limit = settings.connect_timeout + settings.reply_timeout + STATISTICS_WITHIN;
    let late = || ManagementError::Unreachable {
        address: address.to_string(),
        why: format!("no response within {limit:?}"),
    };
    timeout(limit, reading).await.unwrap_or_else(|_| Err(late()))
}

/// The settings of the effective policy of a queue that limit it.
fn limits_of(spec: &QueueSpec, queue: &Value) -> Vec<LimitingPolicy> {
    let Some(definition) = queue.get(DEFINITION).and_then(Value::as_object) else {
        return Vec::new();
    };
    let name = |key: &str| queue.get(key).and_then(Value::as_str).filter(|name| !name.is_empty());
    let policy = match (name("policy"), name("operator_policy")) {
        (Some(policy), Some(operator)) => format!("{policy} with the operator policy {operator}"),
        (Some(policy), None) => policy.to_owned(),
        (None, Some(operator)) => format!("the operator policy {operator}"),
        (None, None) => "unnamed".to_owned(),
    };
    let is_limit = |setting: &str, value: &Value| match setting {
        // Of the policy and the argument of the queue, the server uses the shorter time.
        "message-ttl" => {
            spec.ttl.is_none_or(|ttl| value.as_u64().is_some_and(|ms| u128::from(ms) < ttl.as_millis()))
        }
        // -1 is no limit.
        "delivery-limit" => {
            let is_quorum = queue.get("type").and_then(Value::as_str) != Some("classic");
            is_quorum && value.as_i64().is_none_or(|limit| limit >= 0)
        }
        // The argument of a queue takes precedence.
        "dead-letter-exchange" => spec.dead_letter_key.is_none(),
        _ => true,
    };
    let limits = LIMITS.iter().filter_map(|(setting, effect)| {
        let value = definition.get(*setting).filter(|value| is_limit(setting, value))?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let queues = vec![spec.name.clone()];
        Some(LimitingPolicy { policy: policy.clone(), setting, value, effect, queues })
    });
    limits.collect()
}

/// A connection to the management API.
struct Client {
    sender: SendRequest<Empty<Bytes>>,
    address: ManagementAddress,
    user: String,
    authorization: String,
    _connection: AbortOnDropHandle<()>,
}

impl Client {
    #[allow(clippy::disallowed_methods, reason = "the task ends when the client is dropped")]
    async fn connect(
        settings: &RabbitSettings,
        address: &ManagementAddress,
    ) -> Result<Client, ManagementError> {
        let unreachable = |why: String| ManagementError::Unreachable { address: address.to_string(), why };
        let stream = dial_port(settings, &address.host, address.is_encrypted)
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(error.to_string()))?;
        let connection = tokio::spawn(async move {
            // An error is returned to the request that it affects.
            let _ = connection.await;
        });
        let user = &settings.uri.authority.userinfo;
        let credentials = BASE64_STANDARD.encode(format!("{}:{}", user.username, user.password));
        Ok(Client {
            sender,
            address: address.clone(),
            user: user.username.clone(),
            authorization: format!("Basic {credentials}"),
            _connection: AbortOnDropHandle::new(connection),
        })
    }

    /// Reads a queue with its effective policy; `None` if the queue does not exist.
    #[allow(clippy::disallowed_methods, reason = "a real server is queried in real time")]
    async fn queue_with_policy(
        &mut self,
        vhost: &str,
        name: &str,
        deadline: Instant,
    ) -> Result<Option<Value>, ManagementError> {
        loop {
            match self.queue(vhost, name).await? {
                Some(queue) if queue.get(DEFINITION).is_none() && Instant::now() < deadline => {
                    tokio::time::sleep(STATISTICS_PAUSE).await;
                }
                Some(queue) if queue.get(DEFINITION).is_none() => {
                    return Err(self.unusable(&format_args!("it has no statistics of the queue {name}")));
                }
                queue => return Ok(queue),
            }
        }
    }

    /// Reads a queue; `None` if it does not exist.
    async fn queue(&mut self, vhost: &str, queue: &str) -> Result<Option<Value>, ManagementError> {
        const COLUMNS: &str = "name,type,policy,operator_policy,effective_policy_definition";
        let path = format!("/api/queues/{}/{}?columns={COLUMNS}", escaped(vhost), escaped(queue));
        let request = Request::get(path)
            .header(HOST, self.address.to_string())
            .header(AUTHORIZATION, &self.authorization)
            .body(Empty::new())
            .map_err(|error| self.unusable(&error))?;
        // A request that is sent before the connection has completed the previous one would be cancelled.
        self.sender.ready().await.map_err(|error| self.unusable(&error))?;
        let response = self.sender.send_request(request).await.map_err(|error| self.unusable(&error))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        match parts.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(ManagementError::Denied {
                    address: self.address.to_string(),
                    user: self.user.clone(),
                });
            }
            status => return Err(self.unusable(&status)),
        }
        let body = body.map_err(|error| self.unusable(&error))?.to_bytes();
        serde_json::from_slice(&body).map(Some).map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, why: &dyn fmt::Display) -> ManagementError {
        ManagementError::Unusable { address: self.address.to_string(), why: why.to_string() }
    }
}

/// Percent-encodes a segment of a path.
fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes().fold(String::new(), |mut text, byte| {
        if is_plain(byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn spec(ttl: Option<u64>, dead_letter_key: Option<&str>) -> QueueSpec {
        QueueSpec {
            name: "q".to_owned(),
            bindings: Vec::new(),
            ttl: ttl.map(Duration::from_millis),
            dead_letter_key: dead_letter_key.map(str::to_owned),
            is_selective: false,
            receives_from: None,
        }
    }

    fn limits(spec: &QueueSpec, definition: Value) -> Vec<(&'static str, String)> {
        let queue =
            json!({ "policy": "all", "operator_policy": null, "effective_policy_definition": definition });
        limits_of(spec, &queue).into_iter().map(|limit| (limit.setting, limit.value)).collect()
    }

    #[test]
    fn only_settings_that_limit_the_queue_are_reported() {
        let consumer = spec(None, Some("dead"));
        let set = |setting: &'static str, value: &str| vec![(setting, value.to_owned())];
        assert_eq!(limits(&consumer, json!([])), []);
        assert_eq!(limits(&consumer, json!({ "ha-mode": "all", "overflow": "drop-head" })), []);
        assert_eq!(limits(&consumer, json!({ "message-ttl": 5 })), set("message-ttl", "5"));
        assert_eq!(limits(&consumer, json!({ "delivery-limit": 0 })), set("delivery-limit", "0"));
        assert_eq!(limits(&consumer, json!({ "delivery-limit": -1 })), []);
        assert_eq!(limits(&consumer, json!({ "dead-letter-exchange": "x" })), []);
        let dead_letters = spec(None, None);
        assert_eq!(
            limits(&dead_letters, json!({ "dead-letter-exchange": "x" })),
            set("dead-letter-exchange", "x")
        );
        let all = json!({ "expires": 1, "max-length": 2, "max-length-bytes": 3 });
        let names: Vec<_> = limits(&consumer, all).into_iter().map(|(setting, _)| setting).collect();
        assert_eq!(names, ["max-length", "max-length-bytes", "expires"]);
    }

    #[test]
    fn ttl_of_a_delay_queue_is_limited_only_by_a_shorter_one() {
        let delay = spec(Some(900_000), Some("due"));
        assert_eq!(limits(&delay, json!({ "message-ttl": 900_000 })), []);
        assert_eq!(limits(&delay, json!({ "message-ttl": 899_999 })).len(), 1);
    }

    #[test]
    fn both_policies_are_named() {
        let named = |policy: Value, operator: Value| {
            let definition = json!({ "expires": 1 });
            let queue = json!({ "policy": policy, "operator_policy": operator, "effective_policy_definition": definition });
            limits_of(&spec(None, None), &queue).remove(0).policy
        };
        assert_eq!(named(json!("a"), json!("b")), "a with the operator policy b");
        assert_eq!(named(json!("a"), Value::Null), "a");
        assert_eq!(named(json!(""), json!("b")), "the operator policy b");
    }

    #[test]
    fn path_segments_are_escaped() {
        assert_eq!(escaped("/"), "%2F");
        assert_eq!(escaped("a.b-c_d~1"), "a.b-c_d~1");
        assert_eq!(escaped("v 灯?"), "v%20%E7%81%AF%3F");
    }
}
