//! Rules of Prometheus and their tests, as the files that Prometheus and promtool read.

use std::fmt::Write;

use handover_outbox::Severity;

/// An alerting rule.
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) severity: Severity,
    pub(crate) expression: String,
    /// Time for which the expression has to hold.
    pub(crate) pending: Option<&'static str>,
    /// Time for which it still fires after its expression has ended.
    pub(crate) keeps_firing: Option<&'static str>,
    pub(crate) summary: String,
    /// Its section in the runbook.
    pub(crate) section: String,
    pub(crate) cases: Vec<Case>,
}

/// A test of a rule: series over time, and whether the rule fires.
pub(crate) struct Case {
    pub(crate) what: &'static str,
    /// Minutes between two values.
    pub(crate) interval: u64,
    /// Series with their values, as promtool writes them.
    pub(crate) series: Vec<(String, String)>,
    /// Labels of the alert while it fires, besides `severity`.
    pub(crate) labels: Vec<(&'static str, &'static str)>,
    pub(crate) expected: Vec<(String, Fires)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fires {
    Yes,
    No,
}

/// A series that other rules read.
pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) expression: String,
}

/// Recordings and rules that are evaluated in this order.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) recordings: Vec<Recording>,
    pub(crate) rules: Vec<Rule>,
}

/// A text as a scalar of YAML.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Expressions with several lines are block scalars.
fn expression(text: &str) -> String {
    match text.contains('\n') {
        true => format!("|-\n          {}", text.replace('\n', "\n          ")),
        false => text.to_owned(),
    }
}

fn runbook(rule: &Rule) -> String {
    format!("bootstrap/docs/runbook.md#{}", rule.section)
}

/// The file of rules.
pub(crate) fn rules_file(groups: &[Group]) -> String {
    let mut text = String::from(
        "# Rules for Prometheus 2.42 or newer. Each alert has a section in bootstrap/docs/runbook.md.\n\
         # The job of the processes is named handover (prometheus.yml). A Prometheus that reads several deployments needs the\n\
         # label that distinguishes them in every `by` and `on`.\n\
         # Generated from the lists of alerts and metrics: UPDATE_PAGES=1 tests/run cli pages\n\
         groups:\n",
    );
    for Group { name, recordings, rules } in groups {
        write!(text, "  - name: {name}\n    rules:\n").unwrap();
        for Recording { name, expression: of_recording } in recordings {
            write!(text, "      - record: {name}\n        expr: {}\n", expression(of_recording)).unwrap();
        }
        for rule in rules {
            write!(text, "      - alert: {}\n        expr: {}\n", rule.name, expression(&rule.expression))
                .unwrap();
            let times = [("for", rule.pending), ("keep_firing_for", rule.keeps_firing)];
            for (key, time) in times.into_iter().filter_map(|(key, time)| Some((key, time?))) {
                writeln!(text, "        {key}: {time}").unwrap();
            }
            write!(
                text,
                "        labels:\n          severity: {}\n        annotations:\n          summary: {}\n          runbook: {}\n",
                rule.severity.as_str(),
                quoted(&rule.summary),
                runbook(rule)
            )
            .unwrap();
        }
    }
    text
}

/// A file of tests for promtool, with the minutes between two evaluations of all rules.
pub(crate) fn tests_file(groups: &[&Group], evaluation_minutes: u64) -> String {
    let mut text = format!(
        "# Tests of handover.rules.yml, for promtool test rules.\n\
         # Generated: UPDATE_PAGES=1 tests/run cli pages\n\
         rule_files: [handover.rules.yml]\n\
         evaluation_interval: {evaluation_minutes}m\n\
         tests:\n"
    );
    let rules = groups.iter().flat_map(|group| &group.rules);
    for (rule, case) in rules.flat_map(|rule| rule.cases.iter().map(move |case| (rule, case))) {
        let name = quoted(&format!("{}: {}", rule.name, case.what));
        write!(text, "  - name: {name}\n    interval: {}m\n    input_series:\n", case.interval).unwrap();
        for (series, values) in &case.series {
            write!(text, "      - series: '{series}'\n        values: '{values}'\n").unwrap();
        }
        text += "    alert_rule_test:\n";
        for (at, fires) in &case.expected {
            write!(text, "      - eval_time: {at}\n        alertname: {}\n", rule.name).unwrap();
            if *fires == Fires::Yes {
                text += "        exp_alerts:\n          - exp_labels:\n";
                for (label, value) in [("severity", rule.severity.as_str())].iter().chain(&case.labels) {
                    writeln!(text, "              {label}: {value}").unwrap();
                }
                write!(
                    text,
                    "            exp_annotations:\n              summary: {}\n              runbook: {}\n",
                    quoted(&rule.summary),
                    runbook(rule)
                )
                .unwrap();
            }
        }
    }
    text
}
