//! The payment gateway, asked to pay back: away, silent, late, or not telling what it did.

use std::future::pending;

use async_trait::async_trait;
use marketplace::ports::{Gateway, GatewayError, RefundRequest};

use super::Process;
use crate::actors::bank::Bank;
use crate::faults::{CrashPoint, Fault};

/// One process's way to the gateway, whose faults come from the run's dice.
pub(crate) struct FaultyGateway {
    pub(crate) bank: Bank,
    pub(crate) process: Process,
}

#[async_trait]
impl Gateway for FaultyGateway {
    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
        let faults = &self.process.faults;
        faults.asks_store("the payment gateway");
        faults.delay().await;
        self.process.note(|| format!("asks the gateway for refund {}", request.refund));
        if faults.strikes(Fault::Unavailable) {
            return Err(GatewayError::Unavailable("connection refused".into()));
        }
        if faults.strikes(Fault::Refuses) {
            return Err(GatewayError::Refused("too many requests".into()));
        }
        if faults.strikes(Fault::Silent) {
            return pending().await;
        }
        self.bank.take(request);
        if faults.strikes(Fault::TakenTwice) {
            self.bank.take(request);
        }
        self.process.may_die(CrashPoint::AfterGatewayCall).await;
        if faults.strikes(Fault::TakenInSilence) {
            return pending().await;
        }
        if faults.strikes(Fault::AnswersLate) {
            faults.sleep(faults.dice.millis(500..5_000)).await;
        }
        if faults.strikes(Fault::TakenWithError) {
            return Err(GatewayError::Unavailable("502 Bad Gateway".into()));
        }
        faults.delay().await;
        Ok(())
    }
}
