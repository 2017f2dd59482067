//! The gateway reports the results of refunds, repeatedly if a report fails.

use handover_events::TenantId;
use marketplace::App;
use marketplace::use_cases::{SettleRefund, UseCaseError, settle_refund};
use marketplace_domain::{RefundId, RefundResult, RefundStatus};

use super::journal::ClientResponse;
use super::{ActorState, by_gateway};
use crate::fault_kinds::Fault;
use crate::faults::Faults;
use crate::gateway_model::GatewayRefund;

/// Maximum number of attempts to report a refund. After that, the gateway reports the refund only if its request is
/// repeated.
const REPORTS: usize = 4;

/// The gateway reports the result of a refund to the application, and repeats a report that failed.
pub(crate) async fn report(app: App, state: ActorState, refund: RefundId) {
    let ActorState { faults, journal, gateway_model } = &state;
    let Some(GatewayRefund { result, .. }) = gateway_model.refunds().get(&refund).copied() else { return };
    if faults.occurs(Fault::UnknownRefund) {
        let unknown = RefundId::try_from(9_000_000_000_000).expect("a valid id");
        assert_refused(&app, faults, unknown, result).await;
    }
    for _ in 0..REPORTS {
        let context = by_gateway(faults, TenantId::DEFAULT);
        match settle_refund(&app, &context, SettleRefund { refund, result }).await {
            Ok(settled) => {
                if settled.status != settled_as(result) {
                    let by = settled.status;
                    faults.violation(format!("refund {refund} was reported as {result:?}, but is {by}"));
                }
                journal.record("the gateway", ClientResponse::RefundSettled(refund, settled.status));
                break;
            }
            Err(error @ UseCaseError::Store(_)) => {
                faults.note("the gateway", || format!("report of refund {refund} failed: {error}"));
                faults.sleep(faults.random.millis(50..500)).await;
            }
            Err(error) => {
                faults
                    .violation(format!("refund {refund} is {result:?}, but the report was refused: {error}"));
                return;
            }
        }
    }
    if faults.occurs(Fault::Contradiction) {
        let opposite = match result {
            RefundResult::Success => RefundResult::Failed,
            RefundResult::Failed => RefundResult::Success,
        };
        // Only an accepted report can be contradicted.
        if journal.responses().contains(&ClientResponse::RefundSettled(refund, settled_as(result))) {
            assert_refused(&app, faults, refund, opposite).await;
        }
    }
}

/// Sends a report that must be rejected.
async fn assert_refused(app: &App, faults: &Faults, refund: RefundId, result: RefundResult) {
    let context = by_gateway(faults, TenantId::DEFAULT);
    if settle_refund(app, &context, SettleRefund { refund, result }).await.is_ok() {
        faults.violation(format!("an invalid report settled refund {refund}"));
    }
}

fn settled_as(result: RefundResult) -> RefundStatus {
    match result {
        RefundResult::Success => RefundStatus::Success,
        RefundResult::Failed => RefundStatus::Failed,
    }
}
