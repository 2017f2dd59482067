//! Time limit for calls to the broker, except for publishing.

use std::future::Future;
use std::time::Duration;

use crate::ports::BrokerError;

/// Time limit for declaring, subscribing, settling and reading queue depths. After this time the broker counts as
/// unreachable.
const BROKER_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) async fn broker_timeout<T>(
    call: impl Future<Output = Result<T, BrokerError>>,
) -> Result<T, BrokerError> {
    let late = || BrokerError::Unreachable(format!("no response within {BROKER_TIMEOUT:?}").into());
    tokio::time::timeout(BROKER_TIMEOUT, call).await.unwrap_or_else(|_| Err(late()))
}
