//! Arguments of `webhook listen`.

use clap::Args;
use handover_webhooks::{InvalidKey, VerifyingKey};

use crate::values::{lines_of_file, whole};

/// Arguments of `webhook listen`.
#[derive(Debug, Clone, Args)]
pub struct WebhookListenArgs {
    /// Port on 127.0.0.1; port 0 selects any free port
    #[arg(long, value_name = "PORT", value_parser = whole(0..=u16::MAX), default_value = "9000")]
    pub port: u16,
    /// File with secrets (whsec_...) or public keys (whpk_...) of the endpoint, one per line
    #[arg(long, value_name = "FILE", value_parser = keys, required_unless_present = "keys")]
    pub secret_file: Option<KeysOfFile>,
    /// Secret or public key of the endpoint, which other users of this machine can read in `ps`; can be repeated
    #[arg(long = "secret", value_name = "SECRET", value_parser = key)]
    pub keys: Vec<VerifyingKey>,
}

/// The keys in a file.
#[derive(Debug, Clone)]
pub struct KeysOfFile(Vec<VerifyingKey>);

impl WebhookListenArgs {
    /// The keys in the file and those of the flag.
    pub(crate) fn all_keys(&self) -> Vec<VerifyingKey> {
        let of_file = self.secret_file.iter().flat_map(|KeysOfFile(keys)| keys);
        of_file.chain(&self.keys).cloned().collect()
    }
}

fn keys(path: &str) -> Result<KeysOfFile, String> {
    lines_of_file(path, key).map(KeysOfFile)
}

fn key(text: &str) -> Result<VerifyingKey, String> {
    text.parse().map_err(|error: InvalidKey| error.to_string())
}
