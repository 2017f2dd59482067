//! The marketplace's errors that end the program: secrets and the payment gateway.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use handover_runtime::settings::DatabaseChoice;
use handover_runtime::{Exit, Failure};

handover_runtime::failures! {
/// An error of the marketplace that ends the program.
pub enum MarketFailure {
    SecretNeeded { key: &'static str, listen: SocketAddr } => Exit::Usage,
    what: format!("{key} is not set, and {listen} can be reached from other machines"),
    why: "generated secrets are for trials on one machine; a deployment must set its own",
    do: format!("set {key}, or listen on 127.0.0.1");

    SecretPlaceholder { key: &'static str, listen: SocketAddr } => Exit::Usage,
    what: format!("{key} looks like a placeholder, and {listen} can be reached from other machines"),
    why: "anybody who guesses the secret can sign in as any user or confirm payments",
    do: format!(
        "set {key} to random characters (openssl rand -hex 32; for gateway.secret echo whsec_$(openssl rand -base64 \
         32)), or listen on 127.0.0.1"
    );

    /// Tokens cannot be signed: only public keys of another issuer are configured.
    NoSigningSecret {} => Exit::Usage,
    what: "cannot sign a token: auth.jwt-secret is not set",
    why: "auth.jwks-file has public keys, which verify tokens but cannot sign them",
    do: "get a token from the issuer of the public keys, or also set auth.jwt-secret: both kinds of tokens are then \
         accepted";

    /// Outside loopback the gateway, even the sandbox, must be configured explicitly.
    GatewayNeeded { listen: SocketAddr } => Exit::Usage,
    what: format!("gateway.url is not set, and {listen} can be reached from other machines"),
    why: "the default is a sandbox: it reports refunds as paid and moves no money",
    do: "set gateway.url to https:// and the gateway's address (or to \"sandbox:\" if no money must move), or listen \
         on 127.0.0.1";

    Gateway { message: String } => Exit::Failed,
    what: format!("cannot create the client of the payment gateway: {message}"),
    why: "the service sends refund requests to the payment gateway",
    do: "install this system's certificate authorities (ca-certificates), or name them in SSL_CERT_FILE";

    SharedSecretMissing { key: &'static str, database: DatabaseChoice } => Exit::Usage,
    what: format!("{key} is not set, and all processes that use {database} must share it"),
    why: "every process must accept the tokens and payment callbacks that the others accept",
    do: format!("set {key} to the same value for every process that uses the database");

    /// A configured secret or key file is invalid.
    SecretRefused { key: &'static str, reason: String } => Exit::Usage,
    what: format!("{key} is invalid: {reason}"),
    why: "tokens and payment callbacks are verified with the configured secrets and keys",
    do: format!("correct or remove {key}");

    SecretFile { path: PathBuf, cause: io::Error } => Exit::Failed,
    what: format!("cannot create or read the secret file {}: {cause}", path.display()),
    why: "tokens or payment callbacks are verified with the secret in this file",
    do: "correct the permissions of the file and of its folder";

    SecretExposed { path: PathBuf } => Exit::Failed,
    what: format!("the secret file {} can be read by other users", path.display()),
    why: "anybody who reads the secret can sign in as any user",
    do: format!(
        "run `chmod 600 {}`; if another user may have read the file, remove the file: the next start generates a new \
         secret",
        path.display()
    );

    SecretFileInvalid { path: PathBuf } => Exit::Failed,
    what: format!("the secret file {} contains no valid secret", path.display()),
    why: "the file is empty, too short, or was overwritten by another program",
    do: format!(
        "remove {} (the next start generates a new secret and existing tokens become invalid), or set the secret in the \
         configuration",
        path.display()
    );
}
}

impl MarketFailure {
    /// The error of the marketplace that a failure of the program contains.
    pub fn in_failure(failure: &Failure) -> Option<&MarketFailure> {
        let Failure::Application { failure } = failure else { return None };
        let error: &(dyn Error + 'static) = failure.as_ref();
        error.downcast_ref()
    }
}

impl From<MarketFailure> for Failure {
    fn from(failure: MarketFailure) -> Failure {
        Failure::Application { failure: Box::new(failure) }
    }
}
