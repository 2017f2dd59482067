//! The gateway reports the results of refunds, repeatedly if a report fails.

use handover_events::TenantId;
use marketplace::App;
use marketplace::use_cases::{SettleRefund, UseCaseError};
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
        assert_unknown(&app, faults, unknown, result).await;
    }
    for _ in 0..REPORTS {
        let context = by_gateway(faults, TenantId::DEFAULT);
        match app.payments.settle_refund(&context, command(refund, result)).await {
            Ok(settled) => {
                if settled.status != settled_as(result) {
                    let by = settled.status;
                    faults.violation(format!(
                        "refund {refund} was reported as {result:?}, but the answer is {by}"
                    ));
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
    // Only an accepted report can be contradicted. A bank returns the money of a refund that had succeeded.
    let accepted = ClientResponse::RefundSettled(refund, RefundStatus::Success);
    if result == RefundResult::Success
        && journal.responses().contains(&accepted)
        && faults.occurs(Fault::Contradiction)
    {
        gateway_model.contradict(refund);
        let context = by_gateway(faults, TenantId::DEFAULT);
        let contradiction = app.payments.settle_refund(&context, command(refund, RefundResult::Failed)).await;
        faults.note("the gateway", || format!("reports that refund {refund} failed: {contradiction:?}"));
    }
}

fn command(refund: RefundId, result: RefundResult) -> SettleRefund {
    SettleRefund { refund: refund.into(), result, transaction_id: None, body_hash: String::new() }
}

/// Sends a report about an unknown refund, which must not settle anything.
async fn assert_unknown(app: &App, faults: &Faults, refund: RefundId, result: RefundResult) {
    let context = by_gateway(faults, TenantId::DEFAULT);
    if app.payments.settle_refund(&context, command(refund, result)).await.is_ok() {
        faults.violation(format!("a report settled the unknown refund {refund}"));
    }
}

fn settled_as(result: RefundResult) -> RefundStatus {
    match result {
        RefundResult::Success => RefundStatus::Success,
        RefundResult::Failed => RefundStatus::Failed,
    }
}
