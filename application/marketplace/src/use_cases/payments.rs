//! Use cases of payments and refunds; each has its own file.

use std::sync::Arc;
use std::time::Duration;

use crate::events::EventSource;
use crate::ids::Ids;
use crate::ports::MarketTransactor;

/// Starts and settles payments and refunds.
#[derive(Clone)]
pub struct Payments {
    pub(crate) tx: MarketTransactor,
    pub(crate) ids: Arc<Ids>,
    pub(crate) events: EventSource,
    pub(crate) pending_timeout: Duration,
}
