//! What stands under a key in Redis, as a request.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use handover_outbox::ports::StoreError;
use marketplace::ports::{IdempotencyError, KeptRequest, RequestScope, RequestState, StoredAnswer};

/// A field, if it is there.
type Field = Option<Vec<u8>>;

/// What `claim.lua` reads, in its order.
pub(crate) type Fields = Vec<Field>;

/// The request, or which field is none of ours.
pub(crate) fn kept(
    scope: &RequestScope,
    name: &str,
    fields: Fields,
) -> Result<KeptRequest, IdempotencyError> {
    let of = Of(name);
    let fields: [Field; 9] = fields.try_into().map_err(|_| of.corrupt("*", "it has other fields"))?;
    let [body_hash, token, status, lease_until, answer_status, result, trace_id, created_at, expire_at] =
        fields;
    let state = match of.text("status", status)?.as_str() {
        "PROCESSING" => RequestState::Processing { until: of.time("leaseUntil", lease_until)? },
        "SUCCESS" => RequestState::Success(StoredAnswer {
            status: of.number("answerStatus", answer_status)?,
            data: of.text("result", result)?,
        }),
        other => return Err(of.corrupt("status", &format!("{other:?} is unknown"))),
    };
    Ok(KeptRequest {
        scope: scope.clone(),
        body_hash: of.text("bodyHash", body_hash)?,
        token: of.text("token", token)?,
        state,
        trace_id: of.text("traceId", trace_id)?,
        create_time: of.time("createdAt", created_at)?,
        expire_time: of.time("expireAt", expire_at)?,
    })
}

/// A value that breaks the rules of its field. A person has to look.
pub(crate) fn corrupt(name: &str, column: &'static str, why: &str) -> IdempotencyError {
    StoreError::Corrupt { table: "redis", column, key: name.to_owned(), why: why.to_owned() }.into()
}

/// Reads fields of the request of this name.
struct Of<'a>(&'a str);

impl Of<'_> {
    fn text(&self, field: &'static str, value: Field) -> Result<String, IdempotencyError> {
        let value = value.ok_or_else(|| self.corrupt(field, "it is missing"))?;
        String::from_utf8(value).map_err(|error| self.corrupt(field, &error.to_string()))
    }

    fn number<T: FromStr>(&self, field: &'static str, value: Field) -> Result<T, IdempotencyError> {
        let text = self.text(field, value)?;
        text.parse().map_err(|_| self.corrupt(field, &format!("{text:?} is no number of its kind")))
    }

    fn time(&self, field: &'static str, value: Field) -> Result<DateTime<Utc>, IdempotencyError> {
        let ms = self.number(field, value)?;
        DateTime::from_timestamp_millis(ms).ok_or_else(|| self.corrupt(field, "it is no time"))
    }

    fn corrupt(&self, field: &'static str, why: &str) -> IdempotencyError {
        corrupt(self.0, field, why)
    }
}
