//! Access control: calls every route of the router as every type of caller.

mod caller;
mod fixture;
mod routes;
mod table;

use std::collections::BTreeSet;

use serde_json::Value;

use self::caller::CallerKind;
use self::fixture::AccessFixture;
pub(crate) use self::routes::routes;
pub(crate) use self::table::{Row, TABLE};
use crate::client::Request;

#[tokio::test(start_paused = true)]
async fn access_table_lists_every_route_of_the_router() {
    let fixture = AccessFixture::create().await;
    let listed: BTreeSet<_> = TABLE.iter().map(|row| (row.method.to_owned(), row.route.to_owned())).collect();
    assert_eq!(listed.len(), TABLE.len(), "each route has exactly one row");
    assert_eq!(routes(&fixture.world.router), listed);
    assert!(TABLE.iter().all(|row| row.outcomes().len() == CallerKind::ALL.len()));
}

// Two tests, so that they run at the same time.
#[tokio::test(start_paused = true)]
async fn access_table_matches_responses_to_reads() {
    assert_table_matches(|row| row.method == "GET").await;
}

#[tokio::test(start_paused = true)]
async fn access_table_matches_responses_to_changes_and_denied_ones_change_nothing() {
    assert_table_matches(|row| row.method != "GET").await;
}

async fn assert_table_matches(is_wanted: fn(&Row) -> bool) {
    let mut failures = Vec::new();
    // The fixture is reused until a request changes more than the audit log of reads.
    let mut fixture = AccessFixture::create().await;
    for row in TABLE.iter().filter(|row| is_wanted(row)) {
        let shows_audit_log = row.route.ends_with("/audit");
        if shows_audit_log {
            fixture = AccessFixture::create().await;
        }
        for (caller, outcome) in CallerKind::ALL.into_iter().zip(row.outcomes()) {
            let before = fixture.rows();
            let (status, _, text) = row.request(&fixture, caller).send_raw().await;
            let after = fixture.rows();
            let reads = audited_reads(&before, &after);
            if reads != u64::from(row.is_audited_read(caller, outcome)) {
                failures.push(format!(
                    "{} {} by {caller:?} ({outcome}): {reads} is the wrong number of new reads in the audit log",
                    row.method, row.route
                ));
            }
            if let Some(what) = row.failure(caller, outcome, (status, &text), (&before, &after)) {
                failures.push(format!("{} {} by {caller:?} ({outcome}): {what}", row.method, row.route));
            }
            if shows_audit_log || !without_audited_reads(&before).eq(without_audited_reads(&after)) {
                fixture = AccessFixture::create().await;
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// Number of new audit log entries that record reads: entries with no changed rows.
fn audited_reads(before: &[String], after: &[String]) -> u64 {
    let count = |rows: &[String]| rows.iter().filter(|row| is_audit_of_read(row)).count() as u64;
    count(after) - count(before)
}

fn without_audited_reads(rows: &[String]) -> impl Iterator<Item = &String> {
    rows.iter().filter(|row| !is_audit_of_read(row))
}

fn is_audit_of_read(row: &str) -> bool {
    row.starts_with("audit_log ") && row.contains("changed: 0,")
}

impl Row {
    /// Whether the audit log records the request as a read: the log records the caller as an operator on this route,
    /// and the request is permitted or gets 404, and changes nothing.
    fn is_audited_read(&self, caller: CallerKind, outcome: char) -> bool {
        // Programs poll the lists of event types, alerts and queues, and statistics: they have no rows of a tenant.
        let is_unrecorded = ["/event-types", "/alerts", "/history", "/queues", "/stats"]
            .iter()
            .any(|end| self.route.ends_with(end));
        let is_for_operators = is_operators_route(self.route) && !is_unrecorded;
        // Two POST routes also record a read: a release of an aggregate that is not blocked (404), and a repair, which
        // reads before it changes anything.
        let also_reads =
            self.route.ends_with("/release") && outcome == '4' || self.route.ends_with("/repair");
        let is_read = self.method == "GET" || outcome == '0' || also_reads;
        is_for_operators && is_read && caller.is_operator() && matches!(outcome, '0' | '2' | '4')
    }

    fn outcomes(&self) -> Vec<char> {
        self.cells.chars().filter(|outcome| *outcome != ' ').collect()
    }

    /// Each caller has its own idempotency key, so that a rejected request that keeps its key is detected.
    fn request(&self, fixture: &AccessFixture, caller: CallerKind) -> Request {
        let path = fixture.named(self.path);
        let request = Request::new(&fixture.world.router, self.method, &path);
        let request = match self.body {
            "" => request,
            body => request.json(fixture.named(body)),
        };
        let request = match self.method {
            "POST" => request.header("x-idempotency-key", &format!("of-{caller:?}")),
            _ => request,
        };
        caller.sends(&fixture.world, request)
    }

    /// Describes how the response or the changed rows differ from the expected outcome.
    fn failure(
        &self,
        caller: CallerKind,
        outcome: char,
        (status, text): (u16, &str),
        (before, after): (&[String], &[String]),
    ) -> Option<String> {
        let expected = match outcome {
            '0' | '2' => 200..=202,
            '>' => 303..=307,
            '1' => 401..=401,
            '3' => 403..=403,
            '4' => 404..=404,
            other => return Some(format!("{other} is not a known outcome")),
        };
        if !expected.contains(&status) {
            return Some(format!("the status is {status}, expected {expected:?}: {text}"));
        }
        let changes = outcome == '2' && self.method != "GET";
        // After a success only business rows are compared: the request also stores its response, and a read stores its
        // audit log entry.
        let changed = match outcome {
            '0' | '2' => business_rows(before).ne(business_rows(after)),
            _ => without_audited_reads(before).ne(without_audited_reads(after)),
        };
        if changes != changed {
            return Some(format!(
                "the request changed {}: {text}",
                if changes { "nothing" } else { "something" }
            ));
        }
        if caller.is_of_another_tenant() && before.iter().any(|row| !after.contains(row)) {
            return Some("the request changed rows of another tenant".to_owned());
        }
        let has_items = serde_json::from_str(text).ok().and_then(|body: Value| has_items(&body["data"]));
        match (outcome, has_items) {
            ('0', Some(true)) => Some(format!("the response shows data of another user: {text}")),
            ('2', Some(false)) => Some(
                "the list of a permitted caller is empty, so empty lists of other callers prove nothing"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

/// Whether the route is one for operators.
pub(crate) fn is_operators_route(path: &str) -> bool {
    ["/api/v1/ops/", "/api/v1/webhooks", "/api/v1/invoices"].iter().any(|prefix| path.starts_with(prefix))
}

fn business_rows(rows: &[String]) -> impl Iterator<Item = &String> {
    rows.iter().filter(|row| !row.starts_with("requests ") && !is_audit_of_read(row))
}

/// Whether a list has items; `None` if the data is not a list.
fn has_items(data: &Value) -> Option<bool> {
    let list = ["items", "entries"].iter().find_map(|name| data[*name].as_array());
    list.map(|list| !list.is_empty()).or_else(|| data["completed"].as_u64().map(|count| count > 0))
}
