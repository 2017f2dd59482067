//! The payment gateway: an HTTP client or the sandbox.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use handover_events::TenantId;
use handover_runtime::Failure;
use marketplace::ports::{Gateway, RefundRequest};
use marketplace::use_cases::{Payments, SettleRefund};
use marketplace::{Actor, App, CommandContext, ReportedName};
use marketplace_domain::RefundResult;
use marketplace_gateway::{GatewaySetupError, HttpGateway, RefundReports, SandboxGateway, Signer};
use sha2::{Digest, Sha256};

use crate::failure::MarketFailure;
use crate::secrets::{self, Secrets};
use crate::settings::{Config, GATEWAY_SECRET, GatewayChoice};

const SANDBOX_NOTICE: &str = "gateway: using the sandbox; refunds are reported as paid, no money moves";

/// Checks that `gateway.url` is set explicitly if the service listens outside loopback.
pub fn check(config: &Config, listens: &[SocketAddr]) -> Result<(), MarketFailure> {
    match listens.iter().copied().find(|listen| !listen.ip().is_loopback()) {
        Some(listen) if !config.gateway.is_chosen => Err(MarketFailure::GatewayNeeded { listen }),
        Some(_) | None => Ok(()),
    }
}

/// The gateway, and the signer of its requests if it is called over HTTP.
type GatewayAndSigner = (Arc<dyn Gateway>, Option<Signer>);

/// Creates the configured gateway. The sandbox reports its results to this application.
pub(super) fn of(app: &App, config: &Config) -> Result<GatewayAndSigner, Failure> {
    let clock = Arc::clone(app.tx.clock());
    Ok(match &config.gateway.choice {
        GatewayChoice::Sandbox(delay) => {
            // A process without an API has no listener, so `check` did not require gateway.url.
            match config.gateway.is_chosen || config.database.file().is_some() {
                true => tracing::info!("{SANDBOX_NOTICE}"),
                false => tracing::warn!("{SANDBOX_NOTICE}; gateway.url is not set"),
            }
            let reports = Arc::new(SandboxReports(app.for_background_tasks().payments));
            (Arc::new(SandboxGateway::new(reports, clock, app.tx.tasks().clone(), *delay)), None)
        }
        GatewayChoice::Http(endpoint) => {
            let secret = Secrets::gateway(config)?;
            let timeout = config.settings.refund.timeout;
            let gateway = HttpGateway::new(endpoint, secret.reveal(), timeout, clock).map_err(failed)?;
            let signer = gateway.signer();
            (Arc::new(gateway), Some(signer))
        }
    })
}

fn failed(error: GatewaySetupError) -> Failure {
    match error {
        GatewaySetupError::Secret => secrets::refused(GATEWAY_SECRET, &error),
        GatewaySetupError::Endpoint(_) | GatewaySetupError::Tls(_) => {
            MarketFailure::Gateway { message: error.to_string() }.into()
        }
    }
}

/// Processes the sandbox's reports like the HTTP callbacks of a gateway.
struct SandboxReports(Payments);

#[async_trait]
impl RefundReports for SandboxReports {
    async fn refund_ended(
        &self,
        request: &RefundRequest,
        result: RefundResult,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let context = CommandContext {
            actor: Actor::Gateway,
            // The callbacks of a gateway carry no tenant; the use case reads the tenant from the row of the refund.
            tenant: TenantId::DEFAULT,
            trace: request.trace.clone(),
            request_id: None,
        };
        let command = SettleRefund {
            refund: ReportedName { reference: request.reference, id: Some(request.refund) },
            result,
            transaction_id: None,
            body_hash: body_hash(request, result),
        };
        self.0.settle_refund(&context, command).await?;
        Ok(())
    }
}

/// SHA-256 of the body that a gateway would send, in hexadecimal.
fn body_hash(request: &RefundRequest, result: RefundResult) -> String {
    let body = serde_json::json!({
        "reference": request.reference, "refundId": request.refund, "result": result,
    });
    Sha256::digest(body.to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
}
