//! Requests under idempotency keys.

use chrono::{DateTime, Utc};
use handover_outbox::ports::*;
use marketplace::ports::*;

use super::passes_on;

passes_on! { impl RequestRepo for MarketUnit {
    fn insert_request(request: &KeptRequest) -> ();
    fn advance_request(token: &str, after: &KeptRequest) -> Changed;
    fn drop_request(scope: &RequestScope, token: &str) -> Changed;
    fn sweep_requests(now: DateTime<Utc>, limit: u32) -> u64;
} }
