//! The report of `doctor` and its output formats.

use serde::Serialize;

use crate::config::ConfigError;
use crate::explanation::{Exit, Explained, Explanation};
use crate::failure::Failure;
use crate::names::in_own_name;
use crate::terminal::Output;
use crate::terminal::output::{self, visible};

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// No problem.
    Ok,
    /// A problem that does not prevent serving.
    Warn,
    /// A problem that prevents serving.
    Fail,
}

/// One check of the report.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    check: &'static str,
    /// Result of the check.
    pub status: Status,
    pub(super) what: String,
    why: Option<String>,
    #[serde(rename = "do")]
    remedy: Option<String>,
    /// Exit code if the check failed.
    #[serde(skip)]
    exit: Exit,
}

impl Check {
    /// No problem.
    pub fn ok(check: &'static str, what: String) -> Check {
        Check { check, status: Status::Ok, what, why: None, remedy: None, exit: Exit::Done }
    }

    /// A problem that does not prevent serving.
    pub fn warn(check: &'static str, what: String, why: &str, remedy: &str) -> Check {
        let why = Some(in_own_name(why));
        let remedy = Some(in_own_name(remedy));
        Check { check, status: Status::Warn, what, why, remedy, exit: Exit::Done }
    }

    /// A problem that prevents serving.
    pub fn fail(check: &'static str, what: String, why: String, remedy: String) -> Check {
        let [why, remedy] = [why, remedy].map(|text| Some(in_own_name(&text)));
        Check { check, status: Status::Fail, what, why, remedy, exit: Exit::Failed }
    }

    /// The error with which the service would end.
    pub fn failed(check: &'static str, failure: &Failure) -> Check {
        Check { exit: failure.exit(), ..Check::explained(check, failure.explanation()) }
    }

    /// A configuration error.
    pub fn refused(check: &'static str, error: &ConfigError) -> Check {
        Check { exit: Exit::Usage, ..Check::explained(check, error.explanation()) }
    }

    fn explained(check: &'static str, Explanation { what, why, remedy }: Explanation) -> Check {
        Check::fail(check, what, why, remedy)
    }

    /// Prefixes the text of a failed check with the address of the checked system.
    pub(super) fn failed_at(self, place: &str) -> Check {
        match self.status {
            Status::Ok | Status::Warn => self,
            Status::Fail => Check { what: format!("{place}: {}", self.what), ..self },
        }
    }
}

/// The results of all checks.
#[derive(Debug)]
pub struct Report {
    checks: Vec<Check>,
}

impl Report {
    /// The report of these checks, in this order.
    pub fn of(checks: Vec<Check>) -> Report {
        Report { checks }
    }

    /// 0 if no check failed; 2 if only configuration checks failed; 3 if checks failed only because dependencies are
    /// unavailable; otherwise 1.
    pub fn exit(&self) -> Exit {
        let mut exits = self.checks.iter().map(|check| check.exit).filter(|exit| *exit != Exit::Done);
        let Some(first) = exits.next() else { return Exit::Done };
        if exits.all(|exit| exit == first) { first } else { Exit::Failed }
    }

    /// Formats the report as text or JSON.
    pub fn format(&self, format: Output) -> String {
        match format {
            Output::Json => output::json(&serde_json::json!({
                "healthy": self.exit() == Exit::Done,
                "checks": self.checks,
            })),
            Output::Table => self.lines(),
        }
    }

    fn lines(&self) -> String {
        let width = self.checks.iter().map(|check| check.check.len()).max().unwrap_or(0);
        let mut text = String::new();
        for Check { check, status, what, why, remedy, .. } in &self.checks {
            let status = match status {
                Status::Ok => "ok",
                Status::Warn => "warn",
                Status::Fail => "fail",
            };
            text += &format!("{status:4}  {check:width$}  {}\n", visible(what));
            for (label, detail) in [("why:", why), ("do: ", remedy)] {
                if let Some(detail) = detail {
                    text += &format!("{:blank$}{label} {}\n", "", visible(detail), blank = width + 8);
                }
            }
        }
        let count = |status| self.checks.iter().filter(|check| check.status == status).count();
        text + &format!(
            "{} ok, {} warn, {} fail\n",
            count(Status::Ok),
            count(Status::Warn),
            count(Status::Fail)
        )
    }
}

#[cfg(test)]
mod tests {
    use handover_outbox::ports::StoreError;

    use super::*;
    use crate::settings::DatabaseChoice;

    #[test]
    fn exit_code_is_that_of_the_only_kind_of_failure() {
        let unavailable = || {
            let cause = StoreError::Unavailable("no answer".into());
            Check::failed("database", &Failure::database(&DatabaseChoice::File("shop.db".into()))(cause))
        };
        let broken = || Check::fail("port", "taken".to_owned(), String::new(), String::new());
        let misconfigured = || Check::failed("broker", &Failure::BrokerInMemory {});
        let fine = || Check::ok("clock", String::new());
        let doubtful = || Check::warn("schema", String::new(), "", "");
        for (checks, exit) in [
            (vec![fine(), doubtful()], Exit::Done),
            (vec![fine(), unavailable()], Exit::Unavailable),
            (vec![unavailable(), broken(), doubtful()], Exit::Failed),
            (vec![broken()], Exit::Failed),
            (vec![misconfigured(), fine(), misconfigured()], Exit::Usage),
            (vec![misconfigured(), unavailable()], Exit::Failed),
        ] {
            assert_eq!(Report::of(checks).exit(), exit);
        }
    }
}
