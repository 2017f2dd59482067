//! The payment gateway: behind HTTP, or a sandbox.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use handover_events::TenantId;
use marketplace::ports::{Gateway, RefundRequest};
use marketplace::use_cases::{SettleRefund, settle_refund};
use marketplace::{Actor, App, CommandContext};
use marketplace_domain::RefundResult;
use marketplace_gateway::{HttpGateway, Reports, SandboxGateway, Unusable};

use crate::config::{Config, GatewayChoice};
use crate::{Failure, Secrets};

const PLAYED: &str =
    "the payment gateway is the sandbox: refunds are said to be paid back, and no money moves";

/// Whether a service that listens at these addresses may start with what is configured.
pub fn allow(config: &Config, listens: &[SocketAddr]) -> Result<(), Failure> {
    match listens.iter().copied().find(|listen| !listen.ip().is_loopback()) {
        Some(listen) if !config.gateway.is_chosen => Err(Failure::GatewayNeeded { listen }),
        Some(_) | None => Ok(()),
    }
}

/// The gateway of this configuration, which reports to this application.
pub(super) fn of(app: &App, config: &Config) -> Result<Arc<dyn Gateway>, Failure> {
    let clock = Arc::clone(&app.tx.clock);
    Ok(match &config.gateway.choice {
        GatewayChoice::Sandbox(delay) => {
            // A process without an API listens nowhere, so nothing has made it choose.
            match config.gateway.is_chosen || config.database.file().is_some() {
                true => tracing::info!("{PLAYED}"),
                false => tracing::warn!("{PLAYED}; gateway.url is not set"),
            }
            // The application without a gateway: one with it would hold itself.
            let reports = Arc::new(Reported(app.of_its_own()));
            Arc::new(SandboxGateway::new(reports, clock, app.tx.tasks.clone(), *delay))
        }
        GatewayChoice::Http(endpoint) => {
            let secret = Secrets::gateway(config)?;
            let timeout = config.settings.refund.timeout;
            Arc::new(HttpGateway::new(endpoint, secret.reveal(), timeout, clock).map_err(failed)?)
        }
    })
}

fn failed(error: Unusable) -> Failure {
    match error {
        Unusable::Secret => Failure::SecretRefused { key: "gateway.secret", why: error.to_string() },
        Unusable::Endpoint(_) | Unusable::NoAuthorities(_) | Unusable::Tls(_) => {
            Failure::Gateway(error.to_string())
        }
    }
}

/// Takes the sandbox's reports as the edge takes those of a gateway, without their way through HTTP.
struct Reported(App);

#[async_trait]
impl Reports for Reported {
    async fn refund_ended(
        &self,
        request: &RefundRequest,
        result: RefundResult,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let context = CommandContext {
            actor: Actor::Gateway,
            // A gateway knows no tenants: a refund brings its own.
            tenant: TenantId::DEFAULT,
            trace: request.trace.clone(),
            idempotency: None,
        };
        settle_refund(&self.0, &context, SettleRefund { refund: request.refund, result }).await?;
        Ok(())
    }
}
