//! Webhooks of a process: the transport by configuration.

use std::sync::Arc;

use handover_egress::{EgressClient, Networks, SystemResolver, UrlRules};
use handover_outbox::Outbox;
use handover_outbox::webhooks::{Offer, Webhooks};
use handover_webhooks::{HttpTransport, SecretKey, SecretKeys};

use crate::config::Secret;
use crate::doctor::Check;
use crate::failure::Failure;
use crate::secrets::{Missing, SecretKind, Source, is_placeholder};
use crate::settings::{DatabaseChoice, WEBHOOK_KEY, WebhookConfig};

/// The key that encrypts the secrets of endpoints in the database.
pub static KEY: SecretKind = SecretKind {
    key: WEBHOOK_KEY,
    purpose: "webhook-key",
    prefix: "",
    verifies: &["secrets of webhook endpoints"],
    is_valid: |key| SecretKey::new(key).is_ok(),
};

/// The webhooks of a process. `None` if `webhook.key` is not set and must be: on a database server, whose processes run on
/// several machines, and outside loopback. Otherwise the key is generated beside the database file.
pub fn webhooks(
    outbox: &Outbox,
    offer: Offer,
    config: &WebhookConfig,
    database: &DatabaseChoice,
) -> Result<Option<Webhooks>, Failure> {
    let outside = listens_outside_loopback(config);
    if config.key.is_none() && (outside || database.file().is_none()) {
        return Ok(None);
    }
    if outside && config.key.as_ref().is_some_and(is_placeholder) {
        return Err(Failure::SecretPlaceholder { key: WEBHOOK_KEY });
    }
    let key = KEY.resolve(config.key.as_ref(), database, Missing::Generate)?;
    let networks = Networks::public_and(config.networks.clone()).without_own(config.listens.clone());
    let authorities = config.authorities.as_deref().unwrap_or_default().as_bytes();
    let client = EgressClient::new(networks.clone(), Arc::new(SystemResolver::default()), authorities)
        .map_err(|error| Failure::WebhookTransport { reason: error.to_string() })?;
    let rules = UrlRules { networks, own_hosts: config.own_hosts.clone() };
    let previous = config.previous_key.as_ref().map(secret_key).transpose()?;
    let transport = HttpTransport::new(client, rules, SecretKeys::new(secret_key(&key)?, previous));
    Ok(Some(Webhooks {
        outbox: outbox.clone(),
        offer: Arc::new(offer),
        transport: Arc::new(transport),
        keep: config.keep,
    }))
}

/// The check of `doctor`: whether there is a key, and whether only its owner can read it. Generates nothing.
pub fn check(config: &WebhookConfig, database: &DatabaseChoice) -> Check {
    const NAME: &str = "webhooks";
    const OFF: &str = "no webhook is sent, and no endpoint can be created";
    let generated = match KEY.source(config.key.as_ref(), database) {
        Ok(Source::Set(key)) if is_placeholder(&key) && listens_outside_loopback(config) => {
            return Check::failed(NAME, &Failure::SecretPlaceholder { key: WEBHOOK_KEY });
        }
        Ok(Source::Set(key)) if is_placeholder(&key) => {
            return Check::warn(
                NAME,
                format!("{WEBHOOK_KEY} looks like a placeholder"),
                "anybody who guesses the key can decrypt the secrets of endpoints in a copy of the database",
                "set random characters (openssl rand -hex 32), name the old key as webhook.previous-key, and run `handover \
                 webhook rotate-key`",
            );
        }
        Ok(Source::Set(_)) => return Check::ok(NAME, format!("{WEBHOOK_KEY} is set")),
        Err(Failure::SharedSecretMissing { .. }) => {
            let what = format!("{WEBHOOK_KEY} is not set, so webhooks are off");
            return Check::warn(NAME, what, OFF, SET_KEY);
        }
        Err(failure) => return Check::failed(NAME, &failure),
        Ok(Source::File(path)) => Some(path),
        Ok(Source::NotGenerated) => None,
    };
    match (generated, listens_outside_loopback(config)) {
        (None, false) => Check::ok(NAME, format!("{WEBHOOK_KEY} is generated at the first start")),
        (Some(path), false) => Check::ok(NAME, format!("{WEBHOOK_KEY} is stored in {}", path.display())),
        (generated, true) => {
            let what = format!(
                "{WEBHOOK_KEY} is not set, and the service can be reached from other machines, so webhooks are off"
            );
            let remedy = match generated {
                None => SET_KEY.to_owned(),
                Some(path) => format!(
                    "set webhook.key to the text in {}, which encrypted the secrets of the endpoints",
                    path.display()
                ),
            };
            Check::warn(NAME, what, OFF, &remedy)
        }
    }
}

const SET_KEY: &str =
    "set webhook.key to random characters (openssl rand -hex 32), the same for every process";

fn listens_outside_loopback(config: &WebhookConfig) -> bool {
    config.listens.iter().any(|listen| !listen.ip().is_loopback())
}

fn secret_key(key: &Secret) -> Result<SecretKey, Failure> {
    SecretKey::new(key.reveal()).map_err(|error| Failure::WebhookTransport { reason: error.to_string() })
}
