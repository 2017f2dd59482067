//! The payment gateway: whether it was chosen, and whether somebody is there.

use std::time::Duration;

use marketplace_gateway::Endpoint;
use tokio::net::TcpStream;

use super::report::Check;
use marketplace_wiring::adapters::allow_gateway;
use marketplace_wiring::config::{Config, GatewayChoice};

const NAME: &str = "gateway";
/// Who does not answer within this does not answer.
const PROBE_WITHIN: Duration = Duration::from_secs(2);

/// Looks at it. It is asked for nothing: that would be about money.
pub(super) async fn check(config: &Config) -> Check {
    if let Err(failure) = allow_gateway(config, &config.listens()) {
        return Check::failed(NAME, &failure);
    }
    match &config.gateway.choice {
        GatewayChoice::Sandbox(_) if config.database.file().is_none() => Check::warn(
            NAME,
            "sandbox: says of every refund that it was paid back, and moves no money".to_owned(),
            "it is for trying out, and this database is on a server",
            "set gateway.url to https:// and the gateway's address",
        ),
        GatewayChoice::Sandbox(_) => {
            Check::ok(NAME, "sandbox: says that refunds were paid back, and moves no money".to_owned())
        }
        GatewayChoice::Http(endpoint) => reached(endpoint).await,
    }
}

async fn reached(endpoint: &Endpoint) -> Check {
    let connecting = TcpStream::connect(endpoint.address());
    let why = match tokio::time::timeout(PROBE_WITHIN, connecting).await {
        Ok(Ok(_)) => return Check::ok(NAME, format!("{endpoint} takes connections")),
        Ok(Err(cause)) => cause.to_string(),
        Err(_) => format!("no answer within {PROBE_WITHIN:?}"),
    };
    Check::warn(
        NAME,
        format!("{endpoint} cannot be reached: {why}"),
        "refunds wait until it can be; orders and payments do not",
        "see that gateway.url is right and that this machine may connect there",
    )
}
