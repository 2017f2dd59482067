//! Sends every request of the table and compares the response and the database with the expectation.

use std::fmt;

use serde_json::Value;

use super::case::{Case, Database};
use super::market::Market;
use super::tables::Tables;
use super::wire::Response;

/// Text that no response may contain: paths, libraries and SQL of the program.
const INTERNALS: [&str; 16] = [
    "SELECT ",
    "INSERT ",
    "UPDATE ",
    "DELETE ",
    "CHECK (",
    "sqlite",
    "sqlx",
    "axum",
    "hyper",
    "serde",
    "panicked",
    "backtrace",
    "unwrap",
    ".rs:",
    "/root",
    "/work",
];

/// A request whose response or effect on the database differs from the expectation.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) name: String,
    request: String,
    pub(crate) defects: Vec<String>,
    response: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let defects = self.defects.join("; ");
        write!(f, "{:<48} {}\n    {defects}\n    response: {}", self.name, self.request, self.response)
    }
}

/// Sends the requests one by one and compares the database after each.
pub(crate) async fn run_all(market: &Market, cases: &[Case]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = Tables::of(&market.snapshot).await;
    for case in cases {
        let request = market.complete(case);
        let response = request.send(market.address());
        let after = Tables::of(&market.snapshot).await;
        let mut defects = match &response {
            Ok(response) => defects(market, case, response),
            Err(error) => vec![format!("incomplete response: {error}")],
        };
        let changed = after.changed_since(&before);
        match case.expected.database {
            Database::Unchanged => {
                // The response is stored for repeated requests, even if the request changes nothing else.
                let is_kept = |table: &str| case.expected.status < 300 && table == "idempotency_keys";
                let changed = changed.iter().filter(|table| !is_kept(table));
                defects.extend(changed.map(|table| format!("{table} changed")));
            }
            Database::Changed if changed.is_empty() => defects.push("nothing changed".to_owned()),
            Database::Changed => {}
            Database::Reported if changed == ["gateway_reports"] => {}
            Database::Reported => defects.push(format!("{changed:?} changed instead of gateway_reports")),
        }
        if case.expected.database == Database::Reported {
            before = after;
        } else if case.expected.database == Database::Changed || !changed.is_empty() {
            // Wait until the effects of this request are complete before the next one.
            market.settled().await;
            before = Tables::of(&market.snapshot).await;
        }
        if !defects.is_empty() {
            let body: String = String::from_utf8_lossy(&request.body).chars().take(80).collect();
            findings.push(Finding {
                name: case.name.clone(),
                request: format!("{} {} {body}", request.method, request.path),
                defects,
                response: response
                    .map_or_else(|error| error, |response| format!("{} {}", response.status, response.body)),
            });
        }
    }
    findings
}

pub(crate) fn defects(market: &Market, case: &Case, response: &Response) -> Vec<String> {
    let mut defects = Vec::new();
    let mut check = |passed: bool, defect: String| {
        if !passed {
            defects.push(defect);
        }
    };
    let expected = &case.expected;
    check(
        response.status == expected.status,
        format!("status {} instead of {}", response.status, expected.status),
    );
    let kind = response.header("content-type");
    check(
        kind == Some("application/json"),
        format!("the content type is {kind:?} instead of application/json"),
    );
    for part in INTERNALS.iter().copied().chain(market.secrets()) {
        check(!response.body.contains(part), format!("the response contains {part:?}"));
    }
    let needed = match response.status {
        401 => Some("www-authenticate"),
        405 => Some("allow"),
        503 => Some("retry-after"),
        _ => None,
    };
    if let Some(name) = needed {
        check(response.header(name).is_some(), format!("header {name} is missing"));
    }
    let Ok(Value::Object(body)) = serde_json::from_str(&response.body) else {
        defects.push("the body is not a JSON object".to_owned());
        return defects;
    };
    let keys: Vec<&str> = body.keys().map(String::as_str).collect();
    check(keys == ["code", "message", "data", "traceId"], format!("the fields of the envelope are {keys:?}"));
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let code = text("code");
    check(code == expected.code, format!("code {code} instead of {}", expected.code));
    check(!text("message").is_empty(), "the message is empty".to_owned());
    let trace = text("traceId");
    let header = response.header("x-trace-id");
    check(
        header == Some(trace),
        format!("the trace id is {trace:?} in the body, but {header:?} in the header"),
    );
    let request_id = response.header("x-request-id").unwrap_or_default();
    check(is_legal_id(request_id), format!("{request_id:?} is no request id"));
    check(is_expected_trace(case, trace), format!("{trace:?} is not the trace id of the request"));
    check_data(case, body.get("data").unwrap_or(&Value::Null), &mut check);
    defects
}

/// Checks `data`: a success has data; an error has the list of invalid fields, each with a message, or no data.
fn check_data(case: &Case, data: &Value, check: &mut impl FnMut(bool, String)) {
    let expected = &case.expected;
    if expected.code == "00000" {
        return check(!data.is_null(), "there is no data".to_owned());
    }
    let errors = data["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut named: Vec<&str> = errors.iter().filter_map(|error| error["field"].as_str()).collect();
    let mut wanted: Vec<&str> = expected.fields.iter().map(String::as_str).collect();
    named.sort_unstable();
    wanted.sort_unstable();
    check(named == wanted, format!("the fields are {named:?} instead of {wanted:?}"));
    let explained = errors.iter().all(|error| error["message"].as_str().is_some_and(|why| !why.is_empty()));
    check(explained, "a field has no message".to_owned());
    check(!wanted.is_empty() || data.is_null(), format!("unexpected data: {data}"));
}

/// Whether this is a legal trace id or request id.
fn is_legal_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Whether the response has the trace id of the request if that is valid, and otherwise a new one of 32 hexadecimal
/// digits.
fn is_expected_trace(case: &Case, trace: &str) -> bool {
    let requested =
        case.request.headers.iter().find(|(name, _)| name == "X-Trace-Id").map(|(_, value)| value);
    match requested.filter(|id| is_legal_id(id)) {
        Some(requested) => trace == requested,
        None => trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit()),
    }
}
