//! Rotation of the secrets of endpoints, and of the key that encrypts them.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::endpoints::{InvalidEndpoint, WebhookError};
use super::operations::{Effect, NewEndpoint, Webhooks};
use crate::operations::Operator;
use crate::ports::{EndpointId, EndpointSecret, WebhookEndpoint};

/// Maximum number of valid secrets of an endpoint.
const MAX_SECRETS: usize = 10;
/// Longest time for which a replaced secret stays valid.
pub const MAX_OVERLAP_HOURS: u32 = 168;

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

    /// Encrypts the secrets of all endpoints with the current key. Returns the number of changed endpoints.
    pub async fn rotate_key(&self, operator: &Operator) -> Result<u64, WebhookError> {
        let mut after = None;
        let mut changed = 0;
        loop {
            let page = self.outbox.view().await?.outbox_view().webhook_endpoints_after(after, 100).await?;
            let Some(last) = page.last() else { return Ok(changed) };
            after = Some(last.id);
            for endpoint in page {
                if self.transport.reseal(&endpoint)?.is_none() {
                    continue;
                }
                let transport = Arc::clone(&self.transport);
                let change = move |_: &Operator, before: WebhookEndpoint, (): &()| {
                    Ok(transport.reseal(&before)?.unwrap_or(before))
                };
                let action = ("webhooks.rotate-key", Vec::new());
                self.change(operator, action, endpoint.id, (), change, Effect::None).await?;
                changed += 1;
            }
        }
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
