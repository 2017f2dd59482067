//! Webhooks of a process: the transport by configuration.

use std::sync::Arc;

use handover_egress::{EgressClient, Networks, SystemResolver, UrlRules};
use handover_outbox::Outbox;
use handover_outbox::webhooks::{Offer, Webhooks};
use handover_webhooks::{HttpTransport, SecretKey, SecretKeys};

use crate::config::Secret;
use crate::failure::Failure;
use crate::secrets::{Missing, SecretKind, Source};
use crate::settings::{DatabaseChoice, WEBHOOK_KEY, WebhookConfig};

static KEY: SecretKind = SecretKind {
    key: WEBHOOK_KEY,
    purpose: "webhook-key",
    prefix: "",
    verifies: &["secrets of webhook endpoints"],
    is_valid: |key| SecretKey::new(key).is_ok(),
};

/// The webhooks of a process. `None` if the database is a server and `webhook.key` is not set: processes on several
/// machines share the server, so none of them can generate the key. Beside a database file the key is generated.
pub fn webhooks(
    outbox: &Outbox,
    offer: Offer,
    config: &WebhookConfig,
    database: &DatabaseChoice,
) -> Result<Option<Webhooks>, Failure> {
    if config.key.is_none() && database.file().is_none() {
        return Ok(None);
    }
    let key = KEY.resolve(config.key.as_ref(), database, Missing::Generate)?;
    let networks = Networks::public_and(config.networks.clone());
    let authorities = config.authorities.as_deref().unwrap_or_default().as_bytes();
    let client = EgressClient::new(networks.clone(), Arc::new(SystemResolver), authorities)
        .map_err(|error| Failure::WebhookTransport { reason: error.to_string() })?;
    let rules = UrlRules { networks, own_hosts: Vec::new() };
    let previous = config.previous_key.as_ref().map(secret_key).transpose()?;
    let transport = HttpTransport::new(client, rules, SecretKeys::new(secret_key(&key)?, previous));
    Ok(Some(Webhooks { outbox: outbox.clone(), offer: Arc::new(offer), transport: Arc::new(transport) }))
}

/// Source of the key that encrypts the secrets of endpoints. Generates nothing.
pub fn key_source(config: &WebhookConfig, database: &DatabaseChoice) -> Result<Source, Failure> {
    KEY.source(config.key.as_ref(), database)
}

fn secret_key(key: &Secret) -> Result<SecretKey, Failure> {
    SecretKey::new(key.reveal()).map_err(|error| Failure::WebhookTransport { reason: error.to_string() })
}
