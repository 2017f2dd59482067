//! Retry policies: `{policy = "schedule", delays = [..]}`, `{policy = "exponential", base, cap, max-attempts, jitter}`,
//! and a consumer's `{base, cap}`.

use std::num::NonZeroU32;
use std::time::Duration;

use handover_events::{Jitter, RetryPolicy, RetryPolicyError};
use toml::{Table, Value};

use crate::config::{Checked, ConfigError, Item, Kind, Reader};

const SCHEDULE: &str = r#"{policy = "schedule", delays = ["5s", "30s", "2m"]}"#;
const EXPONENTIAL: &str =
    r#"{policy = "exponential", base = "5s", cap = "1h", max-attempts = 5, jitter = 0.2}"#;
const BACKOFF: &str = r#"{base = "200ms", cap = "5s"}"#;

/// Reads `outbox.retry`.
pub(super) fn outbox(reader: &Reader<'_>) -> Checked<RetryPolicy> {
    reader.key(Kind::Value, "outbox.retry", SCHEDULE, relay_policy)
}

fn relay_policy(item: &Item) -> Result<RetryPolicy, ConfigError> {
    let either = format!("write {SCHEDULE} or {EXPONENTIAL}");
    let fields = Fields::of(item, &either)?;
    let policy = match fields.text("policy")? {
        "schedule" => {
            fields.only(&["policy", "delays"])?;
            let Value::Array(delays) = fields.get("delays")? else {
                return Err(item.refused("delays is not a list", &either));
            };
            if delays.is_empty() || delays.len() > 100 {
                let why = "a schedule must have 1 to 100 delays: with none, a failed publish is not retried; with more, it would be retried for days";
                return Err(item.refused(why, &either));
            }
            let delays = delays.iter().map(|delay| item.duration_of(delay)).collect::<Result<_, _>>()?;
            RetryPolicy::Schedule { delays }
        }
        "exponential" => {
            fields.only(&["policy", "base", "cap", "max-attempts", "jitter"])?;
            let attempts =
                fields.get("max-attempts")?.clone().try_into().ok().filter(|n| (1..=100).contains(n));
            RetryPolicy::Exponential {
                base: item.duration_of(fields.get("base")?)?,
                cap: fields.0.get("cap").map_or(Ok(RetryPolicy::MAX_DELAY), |cap| item.duration_of(cap))?,
                max_attempts: attempts.and_then(NonZeroU32::new).ok_or_else(|| {
                    item.refused("max-attempts is not a whole number from 1 to 100", &either)
                })?,
                jitter: fields.jitter()?,
            }
        }
        other => return Err(item.refused(&format!("there is no policy {other:?}"), &either)),
    };
    checked(item, policy, &either)
}

/// Reads `consumer.retry-threshold` and `consumer.backoff`.
pub(super) fn consumer(reader: &Reader<'_>) -> Checked<RetryPolicy> {
    let why = "0 means no retry, and above the limit a poison message would be retried for too long";
    let threshold = reader.count("consumer.retry-threshold", "3", 0..=100, why);
    let policy = reader.key(Kind::Value, "consumer.backoff", BACKOFF, |item| {
        let example = format!("write {BACKOFF}");
        let fields = Fields::of(item, &example)?;
        fields.only(&["base", "cap"])?;
        let duration = |name| fields.get(name).and_then(|value| item.duration_of(value));
        let [base, cap] = ["base", "cap"].map(duration);
        // The backoff is checked even if the threshold is invalid.
        checked(item, RetryPolicy::consumer(base?, cap?, threshold.unwrap_or_default()), &example)
    });
    threshold.and(policy)
}

fn checked(item: &Item, policy: RetryPolicy, remedy: &str) -> Result<RetryPolicy, ConfigError> {
    let policy = policy.checked().map_err(|error| {
        let why = match error {
            RetryPolicyError::ZeroDelay => "a delay of 0 would retry in a busy loop",
            RetryPolicyError::Shrinking => {
                "delays must not decrease: that would put more and more load on a failing broker"
            }
            RetryPolicyError::CapBelowBase => "the cap is below the base, so the base would never be used",
            RetryPolicyError::Jitter => "jitter must be a fraction from 0 to 1",
        };
        item.refused(why, remedy)
    })?;
    if longest(&policy) > RetryPolicy::MAX_DELAY {
        return Err(item.refused(
            "no delay may be longer than an hour: an event would still wait although the cause of the failure has ended",
            remedy,
        ));
    }
    Ok(policy)
}

fn longest(policy: &RetryPolicy) -> Duration {
    match policy {
        RetryPolicy::Schedule { delays } => delays.iter().copied().max().unwrap_or_default(),
        RetryPolicy::Exponential { cap, .. } => *cap,
        other => other.longest_delay(),
    }
}

/// The fields of an inline table.
struct Fields<'a>(&'a Table, &'a Item, &'a str);

impl<'a> Fields<'a> {
    fn of(item: &'a Item, remedy: &'a str) -> Result<Fields<'a>, ConfigError> {
        let table =
            item.value().as_table().ok_or_else(|| item.refused("it is not an inline table", remedy))?;
        Ok(Fields(table, item, remedy))
    }

    fn get(&self, name: &str) -> Result<&'a Value, ConfigError> {
        self.0.get(name).ok_or_else(|| self.1.refused(&format!("{name} is missing"), self.2))
    }

    fn text(&self, name: &str) -> Result<&'a str, ConfigError> {
        self.get(name)?.as_str().ok_or_else(|| self.1.refused(&format!("{name} is not text"), self.2))
    }

    fn jitter(&self) -> Result<Jitter, ConfigError> {
        let Some(value) = self.0.get("jitter") else { return Ok(Jitter::NONE) };
        let share = value.clone().try_into::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the filter allows a share from 0 to 1, so the percentage is from 0 to 100"
        )]
        let percent = share.map(|share| (share * 100.0).round() as u8);
        percent
            .and_then(|percent| Jitter::percent(percent).ok())
            .ok_or_else(|| self.1.refused("jitter must be a fraction from 0 to 1", self.2))
    }

    fn only(&self, known: &[&str]) -> Result<(), ConfigError> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let why =
                    format!("{name} is not a field of this policy; its fields are {}", known.join(", "));
                Err(self.1.refused(&why, self.2))
            }
        }
    }
}
