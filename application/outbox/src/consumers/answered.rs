//! Every wait for the broker has an end.

use std::future::Future;
use std::time::Duration;

use crate::ports::BrokerError;

/// How long the broker may take to subscribe, to settle or to tell its depths before it counts as away.
const BROKER_PATIENCE: Duration = Duration::from_secs(3);

/// The broker's answer, waited for within bounds.
pub(crate) async fn answered<T>(
    call: impl Future<Output = Result<T, BrokerError>>,
) -> Result<T, BrokerError> {
    let late = || BrokerError::Unreachable(format!("no answer within {BROKER_PATIENCE:?}").into());
    tokio::time::timeout(BROKER_PATIENCE, call).await.unwrap_or_else(|_| Err(late()))
}
