//! The payment gateway of the demo.
//!
//! **Invariant:** each refund has one source of its result. During the day the demo itself reports the planned result to
//! the callback; the configured sandbox gateway, which would report a result too, receives requests only after the day.

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
    use std::sync::Mutex;

    use handover_events::Trace;
    use marketplace_domain::{Currency, Money, OrderId, PaymentId, RefundId};

    use super::*;

    #[derive(Default)]
    struct RecordingGateway(Mutex<Vec<RefundId>>);

    #[async_trait]
    impl Gateway for RecordingGateway {
        async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
            self.0.lock().unwrap().push(request.refund);
            Err(GatewayError::Refused("refused by the test gateway".to_owned()))
        }
    }

    fn request(refund: i64) -> RefundRequest {
        RefundRequest {
            refund: RefundId::try_from(refund).unwrap(),
            payment: PaymentId::try_from(1).unwrap(),
            transaction_id: None,
            order: OrderId::try_from(1).unwrap(),
            amount: Money::from_minor(813).unwrap(),
            currency: Currency::CNY,
            trace: Trace { trace_id: "trace".to_owned(), traceparent: None },
        }
    }

    #[tokio::test]
    async fn requests_reach_gateway_only_after_enable() {
        let recorder = Arc::new(RecordingGateway::default());
        let switch = GatewaySwitch::default();
        let gateway = switch.clone().wrap(Arc::clone(&recorder) as Arc<dyn Gateway>);
        assert!(gateway.refund(&request(1)).await.is_ok(), "accepted; the demo reports the result");
        assert_eq!(*recorder.0.lock().unwrap(), []);
        switch.enable();
        let response = gateway.refund(&request(2)).await;
        assert!(
            matches!(response, Err(GatewayError::Refused(_))),
            "the gateway's error is returned: {response:?}"
        );
        assert_eq!(*recorder.0.lock().unwrap(), [RefundId::try_from(2).unwrap()]);
    }
}
