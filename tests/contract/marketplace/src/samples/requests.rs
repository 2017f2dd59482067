//! Requests with idempotency keys.

use handover_contract::samples::{later, start};
use handover_events::TenantId;
use marketplace::ports::{RequestRecord, RequestScope, RequestState, StoredResponse};

use super::user;

/// The scope of this key for user 10 and a fixed route.
pub fn scope(key: &str) -> RequestScope {
    RequestScope {
        tenant: TenantId::DEFAULT,
        user: user(10),
        route: "POST /api/v1/orders".to_owned(),
        key: key.to_owned(),
    }
}

/// A request in progress with this token; it expires one day after the start time.
pub fn processing_request(key: &str, token: &str) -> RequestRecord {
    RequestRecord {
        scope: scope(key),
        body_hash: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
        token: token.to_owned(),
        state: RequestState::Processing { until: later(40) },
        trace_id: "trace-1".to_owned(),
        create_time: start(),
        expire_time: later(86_400),
    }
}

/// The same request with a stored response.
pub fn completed_request(request: &RequestRecord, data: &str) -> RequestRecord {
    let answer = StoredResponse { code: 201, text: data.to_owned() };
    RequestRecord { state: RequestState::Success(answer), ..request.clone() }
}
