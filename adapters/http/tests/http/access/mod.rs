//! Who may do what: every route of the router with every kind of caller.

mod routes;
mod stage;
mod table;
mod who;

use std::collections::BTreeSet;

use serde_json::Value;

pub(crate) use self::routes::routes;
use self::stage::Stage;
pub(crate) use self::table::{Row, TABLE};
use self::who::Who;
use crate::client::Request;

#[tokio::test(start_paused = true)]
async fn every_route_of_the_router_is_in_the_table() {
    let stage = Stage::set().await;
    let known: BTreeSet<_> = TABLE.iter().map(|row| (row.method.to_owned(), row.route.to_owned())).collect();
    assert_eq!(known.len(), TABLE.len(), "a route has one row");
    assert_eq!(routes(&stage.world.router), known);
    assert!(TABLE.iter().all(|row| row.letters().len() == Who::ALL.len()));
}

#[tokio::test(start_paused = true)]
async fn only_the_allowed_cells_are_done_and_the_others_change_nothing() {
    let mut findings = Vec::new();
    // One stage serves as long as nothing is changed on it.
    let mut stage = Stage::set().await;
    for row in TABLE {
        for (who, letter) in Who::ALL.into_iter().zip(row.letters()) {
            let before = stage.rows();
            let (status, _, text) = row.asked(&stage, who).send_raw().await;
            let after = stage.rows();
            let told = looks(&before, &after);
            if told != u64::from(row.is_told_of(who, letter)) {
                findings.push(format!(
                    "{} {} by {who:?} ({letter}): {told} looks are in the audit log",
                    row.method, row.route
                ));
            }
            if let Some(what) = row.wrong(who, letter, (status, &text), (&before, &after)) {
                findings.push(format!("{} {} by {who:?} ({letter}): {what}", row.method, row.route));
            }
            if before != after {
                stage = Stage::set().await;
            }
        }
    }
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// How many entries the audit log has more, of what changed nothing.
fn looks(before: &[String], after: &[String]) -> u64 {
    let count = |rows: &[String]| rows.iter().filter(|row| is_look(row)).count() as u64;
    count(after) - count(before)
}

fn is_look(row: &str) -> bool {
    row.starts_with("audit_log ") && row.contains("changed: 0,")
}

impl Row {
    /// Whether it is a call that changes nothing by somebody who is an operator, and no party of what it is about.
    fn is_told_of(&self, who: Who, letter: char) -> bool {
        let is_of_operators = self.route.starts_with("/api/v1/ops/")
            || ["refunds", "timeline"].iter().any(|end| self.route.ends_with(end));
        // A release that finds nothing to release is one too, and a repair looks before it mends.
        let looks_too = self.route.ends_with("/release") && letter == '4' || self.route.ends_with("/repair");
        let is_look = self.method == "GET" || letter == '0' || looks_too;
        is_of_operators && is_look && who.is_operator(self.route) && matches!(letter, '0' | '2' | '4')
    }

    fn letters(&self) -> Vec<char> {
        self.cells.chars().filter(|letter| *letter != ' ').collect()
    }

    /// With an idempotency key that is there once, so that a refusal which keeps it would show.
    fn asked(&self, stage: &Stage, who: Who) -> Request {
        let path = stage.named(self.path);
        let request = Request::new(&stage.world.router, self.method, &path);
        let request = match self.body {
            "" => request,
            body => request.json(stage.named(body)),
        };
        let request = match self.method {
            "POST" => request.header("x-idempotency-key", &format!("of-{who:?}")),
            _ => request,
        };
        who.sends(&stage.world, request)
    }

    fn wrong(
        &self,
        who: Who,
        letter: char,
        (status, text): (u16, &str),
        (before, after): (&[String], &[String]),
    ) -> Option<String> {
        let expected = match letter {
            '0' | '2' => 200..=201,
            '>' => 303..=307,
            '1' => 401..=401,
            '3' => 403..=403,
            '4' => 404..=404,
            other => return Some(format!("{other} means nothing")),
        };
        if !expected.contains(&status) {
            return Some(format!("it is answered {status}: {text}"));
        }
        let changes = letter == '2' && self.method == "POST";
        // What was done is kept as the answer to its key, and who only looked in the audit log.
        let changed = match letter {
            '0' | '2' => kept(before).ne(kept(after)),
            _ => before.iter().filter(|row| !is_look(row)).ne(after.iter().filter(|row| !is_look(row))),
        };
        if changes != changed {
            return Some(format!("it changed {}: {text}", if changes { "nothing" } else { "something" }));
        }
        if who.is_of_another_tenant() && before.iter().any(|row| !after.contains(row)) {
            return Some("it changed rows of another tenant".to_owned());
        }
        let shown = serde_json::from_str(text).ok().and_then(|answer: Value| shows(&answer["data"]));
        match (letter, shown) {
            ('0', Some(true)) => Some(format!("it shows what is not the caller's: {text}")),
            ('2', Some(false)) => Some("it shows nothing, so the other cells prove nothing".to_owned()),
            _ => None,
        }
    }
}

fn kept(rows: &[String]) -> impl Iterator<Item = &String> {
    rows.iter().filter(|row| !row.starts_with("requests ") && !is_look(row))
}

/// Whether a list has something on it; `None` for what is no list.
fn shows(data: &Value) -> Option<bool> {
    let list = ["items", "entries"].iter().find_map(|name| data[*name].as_array());
    list.map(|list| !list.is_empty()).or_else(|| data["completed"].as_u64().map(|count| count > 0))
}
