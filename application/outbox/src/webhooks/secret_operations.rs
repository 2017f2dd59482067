//! Rotation of the secrets of endpoints, and of the key that encrypts them.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::endpoints::{InvalidEndpoint, WebhookError};
use super::operations::{Effect, NewEndpoint, Webhooks};
use crate::operations::{OperationError, Operator};
use crate::ports::{EndpointId, EndpointSecret, SecretError, WebhookEndpoint};

/// Maximum number of valid secrets of an endpoint.
const MAX_SECRETS: usize = 10;
/// Longest time for which a replaced secret stays valid.
pub const MAX_OVERLAP_HOURS: u32 = 168;

/// Result of a rotation of the key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RotatedKeys {
    /// Number of endpoints whose secrets were encrypted with the current key.
    pub changed: u64,
    /// The endpoints whose secrets could not be decrypted, and why.
    pub failed: Vec<(EndpointId, SecretError)>,
}

impl Webhooks {
    /// Replaces the secret of an endpoint. Requests are also signed with the previous secrets for some hours (24 unless
    /// another number is given).
    pub async fn rotate_secret(
        &self,
        operator: &Operator,
        id: EndpointId,
        overlap_hours: Option<u32>,
    ) -> Result<NewEndpoint, WebhookError> {
        let overlap = overlap_hours.unwrap_or(24);
        if overlap > MAX_OVERLAP_HOURS {
            let why = format!("must be 0 to {MAX_OVERLAP_HOURS}");
            return Err(InvalidEndpoint::new("overlapHours", why).into());
        }
        let secret = self.transport.new_secret(id)?;
        let now = self.outbox.now();
        let fields = vec![("overlapHours".to_owned(), i64::from(overlap).into())];
        let valid_until = now + TimeDelta::hours(i64::from(overlap));
        let change = move |_: &Operator, before: WebhookEndpoint, new: &EndpointSecret| {
            let secrets = rotated(&before.secrets, new, now, valid_until);
            if secrets.len() > MAX_SECRETS {
                let why =
                    format!("is too long: {MAX_SECRETS} secrets would still be valid; use a shorter time");
                return Err(InvalidEndpoint::new("overlapHours", why).into());
            }
            Ok(WebhookEndpoint { secrets, ..before })
        };
        let action = ("webhooks.rotate-secret", fields);
        let stored = secret.stored.clone();
        let endpoint = self.change(operator, action, id, stored, change, Effect::None).await?;
        Ok(NewEndpoint { endpoint, secret })
    }

    /// Encrypts the secrets of all endpoints that the operator can see with the current key. An endpoint whose secrets this process cannot decrypt does
    /// not end the run.
    pub async fn rotate_key(&self, operator: &Operator) -> Result<RotatedKeys, WebhookError> {
        let mut after = None;
        let mut rotated = RotatedKeys::default();
        loop {
            let page = self.outbox.view().await?.outbox_view().webhook_endpoints_after(after, 100).await?;
            let Some(last) = page.last() else { return Ok(rotated) };
            after = Some(last.id);
            for endpoint in page {
                match self.reseal(operator, &endpoint).await {
                    Ok(is_changed) => rotated.changed += u64::from(is_changed),
                    Err(WebhookError::Secret(error)) => rotated.failed.push((endpoint.id, error)),
                    // The endpoint was deleted in the meantime, with its secrets, or the operator cannot see it.
                    Err(WebhookError::Operation(OperationError::NotFound { .. })) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Encrypts the secrets of an endpoint with the current key, if they are not.
    async fn reseal(&self, operator: &Operator, endpoint: &WebhookEndpoint) -> Result<bool, WebhookError> {
        if self.transport.reseal(endpoint)?.is_none() {
            return Ok(false);
        }
        let transport = Arc::clone(&self.transport);
        let change = move |_: &Operator, before: WebhookEndpoint, (): &()| {
            Ok(transport.reseal(&before)?.unwrap_or(before))
        };
        self.change(operator, ("webhooks.rotate-key", Vec::new()), endpoint.id, (), change, Effect::None)
            .await?;
        Ok(true)
    }
}

/// The secrets after a rotation: the new one, and those that are still valid.
fn rotated(
    before: &[EndpointSecret],
    new: &EndpointSecret,
    now: DateTime<Utc>,
    valid_until: DateTime<Utc>,
) -> Vec<EndpointSecret> {
    let kept = before.iter().map(|secret| EndpointSecret {
        valid_until: Some(secret.valid_until.unwrap_or(valid_until)),
        ..secret.clone()
    });
    let kept = kept.filter(|secret| secret.valid_until.is_some_and(|until| until > now));
    std::iter::once(new.clone()).chain(kept).collect()
}
