//! The payment gateway of the demo.
//!
//! **Invariant:** each refund has one source of its result. During the day the demo itself reports the planned result
//! to the callback; the configured sandbox gateway, which would report a result too, receives requests only after the
//! day.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use marketplace::ports::{Gateway, GatewayError, RefundRequest};

/// Enables the configured gateway when the day is over. Clones share the state.
#[derive(Clone, Default)]
pub(super) struct GatewaySwitch(Arc<AtomicBool>);

impl GatewaySwitch {
    /// Forwards requests to the configured gateway from now on.
    pub(super) fn enable(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Wraps `gateway`: requests before `enable` are accepted and not forwarded.
    pub(super) fn wrap(self, gateway: Arc<dyn Gateway>) -> Arc<dyn Gateway> {
        Arc::new(SwitchedGateway { switch: self, gateway })
    }
}

struct SwitchedGateway {
    switch: GatewaySwitch,
    gateway: Arc<dyn Gateway>,
}

#[async_trait]
impl Gateway for SwitchedGateway {
    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
        match self.switch.0.load(Ordering::Relaxed) {
            true => self.gateway.refund(request).await,
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use handover_events::Trace;
    use marketplace::ports::MockGateway;
    use marketplace_domain::{Currency, Money, OrderId, PaymentId, RefundId};

    use super::*;

    fn request(refund: i64) -> RefundRequest {
        RefundRequest {
            refund: RefundId::try_from(refund).unwrap(),
            reference: None,
            key: format!("refund:{refund}"),
            payment: PaymentId::try_from(1).unwrap(),
            payment_reference: None,
            transaction_id: None,
            of: OrderId::try_from(1).unwrap().into(),
            amount: Money::from_minor(813).unwrap(),
            currency: Currency::CNY,
            trace: Trace { trace_id: "trace".to_owned(), traceparent: None },
        }
    }

    #[tokio::test]
    async fn requests_reach_gateway_only_after_enable() {
        let mut configured = MockGateway::new();
        configured
            .expect_refund()
            .withf(|request| request.refund.get() == 2)
            .once()
            .returning(|_| Err(GatewayError::Refused("refused by the test gateway".to_owned())));
        let switch = GatewaySwitch::default();
        let gateway = switch.clone().wrap(Arc::new(configured));
        assert!(gateway.refund(&request(1)).await.is_ok(), "accepted; the demo reports the result");
        switch.enable();
        let response = gateway.refund(&request(2)).await;
        assert!(
            matches!(response, Err(GatewayError::Refused(_))),
            "the gateway's error must be returned, got {response:?}"
        );
    }
}
