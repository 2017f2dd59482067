//! Checks of the payment gateway: configured explicitly, reachable.

use std::time::Duration;

use marketplace_gateway::Endpoint;
use tokio::net::TcpStream;

use crate::adapters::check_gateway;
use crate::settings::{Config, GatewayChoice};
use handover_runtime::doctor::Check;

const NAME: &str = "gateway";
/// Timeout of the connection to the gateway.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks the gateway. Only opens a connection, because every request to a gateway could move money.
pub(super) async fn check(config: &Config) -> Check {
    if let Err(failure) = check_gateway(config, &config.listens()) {
        return Check::failed(NAME, &failure.into());
    }
    match &config.gateway.choice {
        GatewayChoice::Sandbox(_) if config.database.file().is_none() => Check::warn(
            NAME,
            "sandbox: reports every refund as paid and moves no money".to_owned(),
            "the sandbox is for trials, but this database is on a server",
            "set gateway.url to https:// and the gateway's address",
        ),
        GatewayChoice::Sandbox(_) => {
            Check::ok(NAME, "sandbox: reports every refund as paid and moves no money".to_owned())
        }
        GatewayChoice::Http(endpoint) => check_connection(endpoint).await,
    }
}

async fn check_connection(endpoint: &Endpoint) -> Check {
    let connecting = TcpStream::connect(endpoint.address());
    let why = match tokio::time::timeout(PROBE_TIMEOUT, connecting).await {
        Ok(Ok(_)) => return Check::ok(NAME, format!("{endpoint} accepts connections")),
        Ok(Err(cause)) => cause.to_string(),
        Err(_) => format!("no answer within {PROBE_TIMEOUT:?}"),
    };
    Check::warn(
        NAME,
        format!("{endpoint} cannot be reached: {why}"),
        "refunds wait until the gateway is reachable; orders and payments continue",
        "check gateway.url, and that this machine may connect to it",
    )
}
