//! The files in `.deploy/prometheus` and `.deploy/grafana`, which are generated from the lists of alerts and metrics, and the
//! runbook. `UPDATE_PAGES=1 tests/run cli pages` writes them.

mod alert_rules;
mod dashboards;
mod names;
pub(crate) mod promtool;
mod rule;
mod service_levels;

use std::collections::BTreeSet;
use std::fmt::Write;

use clap::CommandFactory;
use handover_outbox::Limit;
use handover_service::cli::Cli;

use crate::pages::{cell, check, read, root};
use alert_rules::{alerts, of_alert, of_processes};
use dashboards::dashboards;
use names::{metric_of, names};
use promtool::promtool;
use rule::{Fires, Group, Rule, rules_file, tests_file};
use service_levels::service_levels;

fn groups() -> Vec<Group> {
    let (recordings, of_service_levels) = service_levels();
    let of_alerts = alerts().map(of_alert).collect();
    vec![
        Group { name: "handover-alerts", recordings: Vec::new(), rules: of_alerts },
        Group { name: "handover-service-levels", recordings, rules: of_service_levels },
        Group { name: "handover-processes", recordings: Vec::new(), rules: of_processes() },
    ]
}

fn rules(groups: &[Group]) -> impl Iterator<Item = &Rule> {
    groups.iter().flat_map(|group| &group.rules)
}

const RULES: &str = "handover.rules.yml";
/// The files of tests. The service levels need hours, so all rules are evaluated less often there.
fn tests(groups: &[Group]) -> [(&'static str, String); 2] {
    let (of_service_levels, others): (Vec<&Group>, Vec<&Group>) =
        groups.iter().partition(|group| !group.recordings.is_empty());
    [
        ("handover.tests.yml", tests_file(&others, 1)),
        ("service-levels.tests.yml", tests_file(&of_service_levels, 10)),
    ]
}

/// Compares a file of `.deploy` with the generated text, or writes it.
#[track_caller]
fn check_file(name: &str, generated: &str) {
    let path = root().join(".deploy").join(name);
    if std::env::var_os("UPDATE_PAGES").is_some() {
        std::fs::write(path, generated).unwrap();
        return;
    }
    let text = read(&path);
    let differs = text.lines().zip(generated.lines()).find(|(shown, made)| shown != made);
    assert!(
        text == generated,
        ".deploy/{name} differs from the lists; update it with UPDATE_PAGES=1 tests/run cli pages\n\
         first difference (file, lists): {differs:#?}"
    );
}

#[test]
fn pages_prometheus_has_a_rule_and_a_test_of_it_for_every_alert() {
    let groups = groups();
    check_file(&format!("prometheus/{RULES}"), &rules_file(&groups));
    for (name, text) in tests(&groups) {
        check_file(&format!("prometheus/{name}"), &text);
    }
    for rule in rules(&groups) {
        // Quiet, then firing, then quiet again.
        let is_complete = |expected: &[(String, Fires)]| {
            let mut fires: Vec<Fires> = expected.iter().map(|(_, fires)| *fires).collect();
            fires.dedup();
            fires.starts_with(&[Fires::No, Fires::Yes, Fires::No])
        };
        assert!(rule.cases.iter().any(|case| is_complete(&case.expected)), "test of {}", rule.name);
    }
    let names: BTreeSet<&str> = rules(&groups).map(|rule| rule.name.as_str()).collect();
    assert_eq!(names.len(), rules(&groups).count(), "two rules have the same name");
    assert!(names.contains("HandoverQueueDepth"), "{names:?}");
}

#[test]
fn pages_prometheus_rules_and_configuration_pass_promtool() {
    let groups = groups();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(RULES, &rules_file(&groups));
    let tests = tests(&groups);
    tests.iter().for_each(|(name, text)| write(name, text));
    // Rules with the expressions of the panels, whose syntax promtool checks, too.
    let dashboards = dashboards();
    let panels = dashboards.iter().flat_map(|dashboard| &dashboard.panels);
    let queries: Vec<String> = panels
        .flat_map(|panel| &panel.queries)
        .enumerate()
        .map(|(index, query)| {
            let expression = query.expression.replace("$__rate_interval", "1m");
            format!("  - record: panel:{index}\n    expr: {expression}\n")
        })
        .collect();
    write("panels.yml", &format!("groups:\n- name: panels\n  rules:\n{}", queries.concat()));
    promtool(folder.path(), &["check", "rules", RULES, "panels.yml"], "");
    promtool(folder.path(), &["test", "rules", tests[0].0, tests[1].0], "");
    let examples = root().join(".deploy/prometheus");
    let configuration = read(&examples.join("prometheus.yml"));
    assert!(configuration.contains("job_name: handover\n"), "the rules name this job");
    write("prometheus.yml", &configuration);
    promtool(folder.path(), &["check", "config", "prometheus.yml"], "");
}

#[test]
fn pages_grafana_dashboards_match_the_list_of_metrics() {
    for dashboard in dashboards() {
        check_file(&format!("grafana/{}.json", dashboard.name), &dashboard.file());
    }
}

/// The test of `/metrics` finds every metric of the list in a running program.
#[test]
fn pages_rules_and_dashboards_use_listed_metrics_and_recordings() {
    let groups = groups();
    let recordings: Vec<_> = groups.iter().flat_map(|group| &group.recordings).collect();
    let dashboards = dashboards();
    let panels = dashboards.iter().flat_map(|dashboard| &dashboard.panels);
    let of_panels = panels.flat_map(|panel| &panel.queries).map(|query| query.expression.as_str());
    let of_rules = rules(&groups).map(|rule| rule.expression.as_str());
    let of_recordings = recordings.iter().map(|recording| recording.expression.as_str());
    for expression in of_rules.chain(of_recordings).chain(of_panels) {
        let mut used = names(expression).peekable();
        assert!(used.peek().is_some(), "no metric in {expression}");
        for name in used {
            let is_recording = recordings.iter().any(|recording| recording.name == name);
            // Prometheus writes `up`.
            let is_known = name == "up" || is_recording || metric_of(name).is_some();
            assert!(is_known, "no metric and no recording is named {name}: {expression}");
        }
    }
    let found: Vec<&str> =
        names("sum by (le) (rate(handover_x_bucket{job=\"handover\"}[5m])) / up > handover:y").collect();
    assert_eq!(found, ["handover_x_bucket", "up", "handover:y"]);
    assert!(metric_of("handover_publish_seconds_bucket").is_some());
    assert!(metric_of("handover_publish_seconds").is_none(), "a histogram has no such series");
    assert!(metric_of("outbox_event_pending_count").is_none(), "a gauge has no such series");
}

/// The table of alerts in the runbook.
fn alerts_table(_: &str) -> String {
    let mut text =
        "\n| alert | severity | active while | setting of the limit | rule |\n|---|---|---|---|---|\n"
            .to_owned();
    for alert in alerts() {
        let only = alert.only.map(|(label, value)| format!("{{{label}=\"{value}\"}}")).unwrap_or_default();
        let metrics: Vec<String> =
            alert.metrics.iter().map(|metric| format!("`{}{only}`", metric.exported_name())).collect();
        let metrics = metrics.join(" or ");
        let limit = alert.limit;
        let condition = match limit {
            Limit::Above(_) => format!("{metrics} > {limit}"),
            Limit::AtLeast(_) => format!("{metrics} >= {limit}"),
            Limit::AbovePercent(_) => format!("{metrics} > {limit} %"),
            Limit::OlderThan(_) => format!("{metrics} > {limit}"),
            Limit::For(_) => format!("{metrics} > 0 for {limit}"),
            Limit::NotZero => format!("{metrics} > 0"),
        };
        let setting = if limit == Limit::NotZero { "none".to_owned() } else { format!("`{}`", alert.key) };
        let (name, severity, rule) = (alert.name(), alert.severity.as_str(), of_alert(alert).name);
        let condition = cell(&condition);
        writeln!(text, "| [{name}](#{name}) | {severity} | {condition} | {setting} | `{rule}` |").unwrap();
    }
    text + "\n"
}

#[test]
fn pages_runbook_has_every_alert_with_its_limit_and_a_section_per_rule() {
    check("runbook.md", alerts_table);
    let text = read(&root().join("bootstrap/docs/runbook.md"));
    for rule in rules(&groups()) {
        let heading = format!("\n## {}\n", rule.section);
        let (_, section) = text.split_once(&heading).unwrap_or_else(|| {
            panic!(
                "bootstrap/docs/runbook.md has no section {}: meaning, commands, when it ends",
                rule.section
            )
        });
        let section = section.split("\n## ").next().unwrap();
        for part in ["**Meaning.**", "**Check.**", "**Do.**", "**Ends**"] {
            assert!(section.contains(part), "the section {} of the runbook has no {part}", rule.section);
        }
        assert!(
            section.contains(&rule.name) || alerts().any(|alert| alert.name() == rule.section),
            "{}",
            rule.name
        );
    }
}

/// The command lines of a page, without the words before and after their code.
fn command_lines(text: &str) -> Vec<Vec<&str>> {
    let prose = text.split('`').skip(1).step_by(2);
    let blocks = text.lines();
    let lines = prose.chain(blocks).filter(|code| code.starts_with("handover "));
    lines.map(|line| line.split_whitespace().take_while(|word| *word != "#").skip(1).collect()).collect()
}

#[test]
fn pages_runbook_names_commands_and_flags_that_exist() {
    let mut program = Cli::command();
    program.build();
    let text = read(&root().join("bootstrap/docs/runbook.md"));
    let lines = command_lines(&text);
    assert!(lines.len() > 30, "{lines:?}");
    for line in lines {
        let mut command = &program;
        let mut words = line.iter();
        while let Some(inner) = words.as_slice().first().and_then(|word| command.find_subcommand(word)) {
            command = inner;
            words.next();
        }
        let is_complete = command.get_name() != program.get_name() && !command.is_subcommand_required_set();
        assert!(is_complete, "no such command: handover {}", line.join(" "));
        for flag in words.filter_map(|word| word.strip_prefix("--")) {
            let has = command.get_arguments().any(|argument| argument.get_long() == Some(flag));
            assert!(has, "no flag --{flag}: handover {}", line.join(" "));
        }
    }
}
