//! Sends every request of the table and says what is wrong with its answer.

use std::fmt;

use serde_json::Value;

use super::case::{Case, Database};
use super::market::Market;
use super::tables::Tables;
use super::wire::Response;

/// What no answer may show: where the program lies, what it is made of, what it asked its database.
const INSIDES: [&str; 16] = [
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

/// A request whose answer, or whose trace in the database, is not as the table says.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) name: String,
    request: String,
    pub(crate) flaws: Vec<String>,
    answer: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flaws = self.flaws.join("; ");
        write!(f, "{:<48} {}\n    {flaws}\n    answered {}", self.name, self.request, self.answer)
    }
}

/// Sends them one by one; after each, looks at the database.
pub(crate) async fn try_all(market: &Market, cases: &[Case]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = Tables::of(&market.books).await;
    for case in cases {
        let request = market.complete(case);
        let answer = request.send(market.address());
        let after = Tables::of(&market.books).await;
        let mut flaws = match &answer {
            Ok(response) => flaws(market, case, response),
            Err(error) => vec![format!("no whole answer: {error}")],
        };
        let changed = after.changed_since(&before);
        match case.expected.database {
            Database::Unchanged => {
                // What was answered is kept for repeats, also where there was nothing to do.
                let is_kept = |table: &str| case.expected.status < 300 && table == "idempotency_keys";
                let changed = changed.iter().filter(|table| !is_kept(table));
                flaws.extend(changed.map(|table| format!("{table} changed")));
            }
            Database::Changed if changed.is_empty() => flaws.push("nothing changed".to_owned()),
            Database::Changed => {}
        }
        if case.expected.database == Database::Changed || !changed.is_empty() {
            // What it set off comes to rest before the next is looked at.
            market.settled().await;
            before = Tables::of(&market.books).await;
        }
        if !flaws.is_empty() {
            let body: String = String::from_utf8_lossy(&request.body).chars().take(80).collect();
            findings.push(Finding {
                name: case.name.clone(),
                request: format!("{} {} {body}", request.method, request.path),
                flaws,
                answer: answer
                    .map_or_else(|error| error, |answer| format!("{} {}", answer.status, answer.body)),
            });
        }
    }
    findings
}

/// What is wrong with an answer.
pub(crate) fn flaws(market: &Market, case: &Case, response: &Response) -> Vec<String> {
    let mut flaws = Vec::new();
    let mut hold = |held: bool, flaw: String| {
        if !held {
            flaws.push(flaw);
        }
    };
    let expected = &case.expected;
    hold(response.status == expected.status, format!("{} instead of {}", response.status, expected.status));
    let kind = response.header("content-type");
    hold(kind == Some("application/json"), format!("the content type is {kind:?}"));
    for part in INSIDES.iter().copied().chain(market.secrets()) {
        hold(!response.body.contains(part), format!("it shows {part:?}"));
    }
    let needed = match response.status {
        401 => Some("www-authenticate"),
        405 => Some("allow"),
        503 => Some("retry-after"),
        _ => None,
    };
    if let Some(name) = needed {
        hold(response.header(name).is_some(), format!("there is no header {name}"));
    }
    let Ok(Value::Object(body)) = serde_json::from_str(&response.body) else {
        flaws.push("it is no JSON object".to_owned());
        return flaws;
    };
    let keys: Vec<&str> = body.keys().map(String::as_str).collect();
    hold(keys == ["code", "message", "data", "traceId"], format!("its fields are {keys:?}"));
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let code = text("code");
    hold(code == expected.code, format!("{code} instead of {}", expected.code));
    hold(!text("message").is_empty(), "it says nothing".to_owned());
    let trace = text("traceId");
    let header = response.header("x-trace-id");
    hold(header == Some(trace), format!("trace {trace:?} in the body, {header:?} in the header"));
    hold(is_right_trace(case, trace), format!("{trace:?} is not the trace that the request asks for"));
    hold_data(case, body.get("data").unwrap_or(&Value::Null), &mut hold);
    flaws
}

/// What a refusal carries: the fields that are wrong, each with why, or nothing.
fn hold_data(case: &Case, data: &Value, hold: &mut impl FnMut(bool, String)) {
    let expected = &case.expected;
    if expected.code == "00000" {
        return hold(!data.is_null(), "it carries nothing".to_owned());
    }
    let errors = data["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut named: Vec<&str> = errors.iter().filter_map(|error| error["field"].as_str()).collect();
    let mut wanted: Vec<&str> = expected.fields.iter().map(String::as_str).collect();
    named.sort_unstable();
    wanted.sort_unstable();
    hold(named == wanted, format!("it names {named:?} instead of {wanted:?}"));
    let explained = errors.iter().all(|error| error["message"].as_str().is_some_and(|why| !why.is_empty()));
    hold(explained, "it does not say what is wrong with a field".to_owned());
    hold(!wanted.is_empty() || data.is_null(), format!("it carries {data}"));
}

/// The trace that was asked for, if it is one; else a new one of 32 hexadecimal digits.
fn is_right_trace(case: &Case, trace: &str) -> bool {
    let asked = case.request.headers.iter().find(|(name, _)| name == "X-Trace-Id").map(|(_, value)| value);
    let legal = |id: &&String| {
        (1..=64).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    };
    match asked.filter(legal) {
        Some(asked) => trace == asked,
        None => trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit()),
    }
}
