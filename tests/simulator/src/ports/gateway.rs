//! The payment gateway port with faults: unavailable, late, without a response, or with a wrong one.

use std::future::pending;

use async_trait::async_trait;
use marketplace::ports::{Gateway, GatewayError, RefundRequest};

use super::Process;
use crate::fault_kinds::{CrashPoint, Fault};
use crate::gateway_model::GatewayModel;

/// The gateway port of one process, with the faults of the run.
pub(crate) struct FaultyGateway {
    pub(crate) gateway_model: GatewayModel,
    pub(crate) process: Process,
}

#[async_trait]
impl Gateway for FaultyGateway {
    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
        let faults = &self.process.faults;
        faults.needs_connection("the payment gateway");
        faults.delay().await;
        self.process.note(|| format!("requests refund {} from the gateway", request.refund));
        if faults.occurs(Fault::Unavailable) {
            return Err(GatewayError::Unavailable("connection refused".into()));
        }
        if faults.occurs(Fault::RefundRefused) {
            return Err(GatewayError::Refused("too many requests".into()));
        }
        if faults.occurs(Fault::NoResponse) {
            return pending().await;
        }
        self.gateway_model.accept_refund(request);
        if faults.occurs(Fault::AcceptedTwice) {
            self.gateway_model.accept_refund(request);
        }
        self.process.maybe_crash(CrashPoint::AfterGatewayCall).await;
        if faults.occurs(Fault::AcceptedNoResponse) {
            return pending().await;
        }
        if faults.occurs(Fault::ResponseLate) {
            faults.sleep(faults.random.millis(500..5_000)).await;
        }
        if faults.occurs(Fault::AcceptedWithError) {
            return Err(GatewayError::Unavailable("502 Bad Gateway".into()));
        }
        faults.delay().await;
        Ok(())
    }
}
