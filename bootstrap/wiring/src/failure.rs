//! The marketplace's errors that end the program: secrets and the payment gateway.

use std::error::Error;
use std::net::SocketAddr;

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
