//! What was found, and how it is written.

use serde::Serialize;

use marketplace_wiring::config::ConfigError;
use marketplace_wiring::terminal::Output;
use marketplace_wiring::terminal::output::{self, visible};
use marketplace_wiring::{Exit, Failure};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    Warn,
    Fail,
}

/// One line of the report.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Check {
    check: &'static str,
    pub(super) status: Status,
    what: String,
    why: Option<String>,
    #[serde(rename = "do")]
    remedy: Option<String>,
    /// The exit code, if it failed.
    #[serde(skip)]
    exit: Exit,
}

impl Check {
    /// Nothing is wrong.
    pub(super) fn ok(check: &'static str, what: String) -> Check {
        Check { check, status: Status::Ok, what, why: None, remedy: None, exit: Exit::Done }
    }

    /// Serving works, but somebody should know.
    pub(super) fn warn(check: &'static str, what: String, why: &str, remedy: &str) -> Check {
        let (why, remedy) = (Some(why.to_owned()), Some(remedy.to_owned()));
        Check { check, status: Status::Warn, what, why, remedy, exit: Exit::Done }
    }

    /// Serving does not work.
    pub(super) fn fail(check: &'static str, what: String, why: String, remedy: String) -> Check {
        Check { check, status: Status::Fail, what, why: Some(why), remedy: Some(remedy), exit: Exit::Failed }
    }

    /// What `serve` would give up with.
    pub(super) fn failed(check: &'static str, failure: &Failure) -> Check {
        Check {
            exit: failure.exit(),
            ..Check::fail(check, failure.to_string(), failure.why(), failure.remedy())
        }
    }

    /// An error of the configuration.
    pub(super) fn refused(check: &'static str, error: &ConfigError) -> Check {
        Check { exit: Exit::Usage, ..Check::fail(check, error.to_string(), error.why(), error.remedy()) }
    }

    /// The same; if it failed, it says where.
    pub(super) fn failed_at(self, place: &str) -> Check {
        match self.status {
            Status::Ok | Status::Warn => self,
            Status::Fail => Check { what: format!("{place}: {}", self.what), ..self },
        }
    }
}

/// Everything that was looked at.
#[derive(Debug)]
pub(crate) struct Report {
    checks: Vec<Check>,
}

impl Report {
    pub(super) fn of(checks: Vec<Check>) -> Report {
        Report { checks }
    }

    /// 0 nothing fails, 2 the configuration is wrong and nothing else fails, 3 dependencies are away and nothing else fails,
    /// 1 otherwise.
    pub(crate) fn exit(&self) -> Exit {
        let mut exits = self.checks.iter().map(|check| check.exit).filter(|exit| *exit != Exit::Done);
        let Some(first) = exits.next() else { return Exit::Done };
        if exits.all(|exit| exit == first) { first } else { Exit::Failed }
    }

    /// For a person or a program.
    pub(crate) fn written(&self, form: Output) -> String {
        match form {
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
            for (label, words) in [("why:", why), ("do: ", remedy)] {
                if let Some(words) = words {
                    text += &format!("{:blank$}{label} {}\n", "", visible(words), blank = width + 8);
                }
            }
        }
        let count = |status| self.checks.iter().filter(|check| check.status == status).count();
        text + &format!(
            "{} ok, {} to look at, {} failed\n",
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
    use marketplace_wiring::config::DatabaseChoice;

    #[test]
    fn failures_of_one_kind_exit_with_its_code() {
        let away = || {
            let cause = StoreError::Unavailable("no answer".into());
            Check::failed("database", &Failure::database(&DatabaseChoice::File("shop.db".into()))(cause))
        };
        let broken = || Check::fail("port", "taken".to_owned(), String::new(), String::new());
        let misnamed = || Check::failed("broker", &Failure::BrokerUnseen);
        let fine = || Check::ok("clock", String::new());
        let odd = || Check::warn("schema", String::new(), "", "");
        for (checks, exit) in [
            (vec![fine(), odd()], Exit::Done),
            (vec![fine(), away()], Exit::Away),
            (vec![away(), broken(), odd()], Exit::Failed),
            (vec![broken()], Exit::Failed),
            (vec![misnamed(), fine(), misnamed()], Exit::Usage),
            (vec![misnamed(), away()], Exit::Failed),
        ] {
            assert_eq!(Report::of(checks).exit(), exit);
        }
    }
}
