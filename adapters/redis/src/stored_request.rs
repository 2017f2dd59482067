//! Decoding of a request stored in Redis.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use handover_outbox::ports::StoreError;
use marketplace::ports::{IdempotencyError, RequestRecord, RequestScope, RequestState, StoredResponse};

/// The value of a hash field; `None` if it is absent.
type Field = Option<Vec<u8>>;

/// The fields that `claim.lua` returns, in the same sequence.
pub(crate) type Fields = Vec<Field>;

/// Decodes a stored request. The error names the invalid field.
pub(crate) fn decode(
    scope: &RequestScope,
    name: &str,
    fields: Fields,
) -> Result<RequestRecord, IdempotencyError> {
    let reader = FieldReader(name);
    let fields: [Field; 9] =
        fields.try_into().map_err(|_| reader.corrupt("*", "the number of fields is wrong"))?;
    let [body_hash, token, status, lease_until, answer_status, result, trace_id, created_at, expire_at] =
        fields;
    let state = match reader.text("status", status)?.as_str() {
        "PROCESSING" => RequestState::Processing { until: reader.time("leaseUntil", lease_until)? },
        "SUCCESS" => RequestState::Success(StoredResponse {
            code: reader.number("answerStatus", answer_status)?,
            text: reader.text("result", result)?,
        }),
        other => return Err(reader.corrupt("status", &format!("{other:?} is not a known status"))),
    };
    Ok(RequestRecord {
        scope: scope.clone(),
        body_hash: reader.text("bodyHash", body_hash)?,
        token: reader.text("token", token)?,
        state,
        trace_id: reader.text("traceId", trace_id)?,
        create_time: reader.time("createdAt", created_at)?,
        expire_time: reader.time("expireAt", expire_at)?,
    })
}

/// The error for an invalid field, which an operator must correct.
pub(crate) fn corrupt(name: &str, column: &'static str, why: &str) -> IdempotencyError {
    StoreError::Corrupt { table: "redis", column, key: name.to_owned(), why: why.to_owned() }.into()
}

/// Decodes the fields of the request with this key.
struct FieldReader<'a>(&'a str);

impl FieldReader<'_> {
    fn text(&self, field: &'static str, value: Field) -> Result<String, IdempotencyError> {
        let value = value.ok_or_else(|| self.corrupt(field, "the field is missing"))?;
        String::from_utf8(value).map_err(|error| self.corrupt(field, &error.to_string()))
    }

    fn number<T: FromStr>(&self, field: &'static str, value: Field) -> Result<T, IdempotencyError> {
        let text = self.text(field, value)?;
        text.parse()
            .map_err(|_| self.corrupt(field, &format!("{text:?} is not a number of the expected type")))
    }

    fn time(&self, field: &'static str, value: Field) -> Result<DateTime<Utc>, IdempotencyError> {
        let ms = self.number(field, value)?;
        DateTime::from_timestamp_millis(ms).ok_or_else(|| self.corrupt(field, "the time is out of range"))
    }

    fn corrupt(&self, field: &'static str, why: &str) -> IdempotencyError {
        corrupt(self.0, field, why)
    }
}
