//! Arguments of `webhook listen`.

use clap::Args;
use handover_webhooks::{InvalidKey, VerifyingKey};

use crate::values::whole;

/// Arguments of `webhook listen`.
#[derive(Debug, Clone, Args)]
pub struct WebhookListenArgs {
    /// Port on 127.0.0.1; port 0 selects any free port
    #[arg(long, value_name = "PORT", value_parser = whole(0..=u16::MAX), default_value = "9000")]
    pub port: u16,
    /// Secret (whsec_...) or public key (whpk_...) of the endpoint; can be repeated
    #[arg(long = "secret", value_name = "SECRET", value_parser = key, required = true)]
    pub keys: Vec<VerifyingKey>,
}

fn key(text: &str) -> Result<VerifyingKey, String> {
    text.parse().map_err(|error: InvalidKey| error.to_string())
}
