//! The payment gateway of the day.
//!
//! **Invariant:** one voice reports what becomes of a refund. By day that is the people of the market, who report it
//! succeeded or failed as planned; the gateway of the configuration, which would report too, is asked only after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use marketplace::ports::{Gateway, GatewayError, RefundRequest};

/// Whether the day is over. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Evening(Arc<AtomicBool>);

impl Evening {
    /// Now it is.
    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// This gateway, from the evening on. Requests before it are taken.
    pub(super) fn opens(self, gateway: Arc<dyn Gateway>) -> Arc<dyn Gateway> {
        Arc::new(DayGateway { evening: self, gateway })
    }
}

struct DayGateway {
    evening: Evening,
    gateway: Arc<dyn Gateway>,
}

#[async_trait]
impl Gateway for DayGateway {
    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
        match self.evening.0.load(Ordering::Relaxed) {
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
    struct Asked(Mutex<Vec<RefundId>>);

    #[async_trait]
    impl Gateway for Asked {
        async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
            self.0.lock().unwrap().push(request.refund);
            Err(GatewayError::Refused("not today".to_owned()))
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
    async fn by_day_requests_are_taken_and_only_after_it_the_gateway_is_asked() {
        let (asked, evening) = (Arc::new(Asked::default()), Evening::default());
        let gateway = evening.clone().opens(Arc::clone(&asked) as Arc<dyn Gateway>);
        assert!(gateway.refund(&request(1)).await.is_ok(), "the market will report it");
        assert_eq!(*asked.0.lock().unwrap(), []);
        evening.begin();
        let answered = gateway.refund(&request(2)).await;
        assert!(matches!(answered, Err(GatewayError::Refused(_))), "its answer is passed on: {answered:?}");
        assert_eq!(*asked.0.lock().unwrap(), [RefundId::try_from(2).unwrap()]);
    }
}
