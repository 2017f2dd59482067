//! The pages in `bootstrap/docs` and the READMEs: generated parts match the program, every route is listed, and every
//! link has a target. `UPDATE_PAGES=1 cargo test -p handover-service --test cli pages` writes the generated parts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};
use handover_outbox::{Metric, MetricKind};
use handover_runtime::config::{Configuration, Shown, Sources};
use handover_service::cli::Cli;
use marketplace_wiring::settings::Config;

use crate::links::{broken_links, pages};
use crate::log_codes::{LogLine, log_lines};

const BEGIN: &str = "<!-- generated";
const END: &str = "<!-- end of the generated part -->";

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> PathBuf {
    root().join("bootstrap/docs").join(name)
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Compares the part between the markers of a page with the output of `generate`, or writes that output.
#[track_caller]
pub(crate) fn check(name: &str, generate: impl Fn(&str) -> String) {
    let text = read(&page(name));
    let begin =
        text.find(BEGIN).and_then(|at| Some(at + text[at..].find('\n')? + 1)).expect("a first marker");
    let end = text.find(END).expect("a last marker");
    let generated = generate(&text[begin..end]);
    if std::env::var_os("UPDATE_PAGES").is_some() {
        std::fs::write(page(name), format!("{}{generated}{}", &text[..begin], &text[end..])).unwrap();
        return;
    }
    let differs = text[begin..end].lines().zip(generated.lines()).find(|(shown, made)| shown != made);
    assert!(
        text[begin..end] == generated,
        "bootstrap/docs/{name} differs from the program; update it with UPDATE_PAGES=1 cargo test -p handover \
         --test cli pages\nfirst difference (page, program): {differs:#?}"
    );
}

pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The page keeps its manually written meanings; keys, order and defaults come from the program.
fn configuration(shown: &str) -> String {
    let rows = shown.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let meanings: BTreeMap<&str, &str> = rows
        .filter_map(|row| {
            let (key, rest) = row.split_once("` | ")?;
            Some((key, rest.split_once(" | ")?.1))
        })
        .collect();
    let mut text = String::new();
    let mut section = "";
    for setting in Config::describe(&Sources::default()).settings {
        let of = setting.key.split('.').next().unwrap();
        if of != section {
            section = of;
            write!(text, "\n## {section}\n\n| key | default | meaning |\n|---|---|---|\n").unwrap();
        }
        let default = match setting.value {
            Shown::Value { text, .. } => format!("`{}`", cell(&text)),
            Shown::Generated => "generated".to_owned(),
            Shown::Unset => "not set".to_owned(),
            Shown::Hidden => panic!("the default of {} is a secret", setting.key),
        };
        let meaning = meanings.get(setting.key).copied().unwrap_or_default();
        writeln!(text, "| `{}` | {default} | {meaning} |", setting.key).unwrap();
    }
    text + "\n"
}

#[test]
fn pages_configuration_has_every_key_with_its_default_and_a_meaning() {
    check("configuration.md", configuration);
    let text = read(&page("configuration.md"));
    let without: Vec<&str> =
        text.lines().filter(|line| line.starts_with("| `") && line.ends_with("|  |")).collect();
    assert!(without.is_empty(), "write the meanings of these keys into the page: {without:#?}");
}

#[test]
fn pages_secrets_has_every_setting_that_may_contain_a_secret() {
    let text = read(&page("secrets.md"));
    let settings = Config::describe(&Sources::default()).settings;
    let secrets = settings.iter().filter(|setting| setting.may_be_secret).map(|setting| setting.key);
    let (found, missing): (Vec<&str>, Vec<&str>) =
        secrets.partition(|key| text.contains(&format!("`{key}`")));
    assert!(missing.is_empty(), "bootstrap/docs/secrets.md does not say how to rotate {missing:?}");
    assert!(["auth.jwt-secret", "database.url"].iter().all(|key| found.contains(key)), "{found:?}");
}

/// Every runnable command with its full name.
fn leaves(before: &str, command: &Command, found: &mut Vec<(String, Command)>) {
    let name = format!("{before} {}", command.get_name());
    if !command.has_subcommands() || !command.is_subcommand_required_set() {
        found.push((name.clone(), command.clone()));
    }
    if command.has_subcommands() && command.get_name() != "help" {
        command.get_subcommands().for_each(|inner| leaves(&name, inner, found));
    }
}

fn argument(argument: &Arg) -> String {
    let value =
        argument.get_value_names().map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>());
    let value = value.unwrap_or_default().join(" ");
    let takes = argument.get_action().takes_values();
    let name = match argument.get_long() {
        Some(long) if takes => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
        None => value,
    };
    let defaults = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    let mut notes: Vec<String> =
        defaults.filter(|_| takes).map(|value| format!("default: {value}")).collect();
    if argument.is_required_set() {
        notes.push("required".to_owned());
    }
    if let Some(variable) = argument.get_env() {
        notes.push(format!("env: {}", variable.to_string_lossy()));
    }
    let possible = argument.get_possible_values();
    if takes && !possible.is_empty() {
        notes.push(possible.iter().map(|value| value.get_name()).collect::<Vec<_>>().join(", "));
    }
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let notes = notes.iter().map(|note| format!(" [{note}]")).collect::<String>();
    format!("| `{name}` | {}{} |\n", cell(&help), cell(&notes))
}

fn command_line(_: &str) -> String {
    let mut program = Cli::command();
    program.build();
    let mut found = Vec::new();
    program.get_subcommands().for_each(|command| leaves("handover", command, &mut found));
    found.retain(|(name, _)| !name.ends_with(" help"));
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = "\n| command | what it does |\n|---|---|\n".to_owned();
    for (name, command) in &found {
        writeln!(text, "| [`{name}`](#{}) | {} |", name.replace(' ', "-"), cell(&about(command))).unwrap();
    }
    for (name, command) in &mut found {
        let usage = command.render_usage().to_string();
        // The usages of a command that can also run without a subcommand are aligned after the heading.
        let usage = usage.trim_start_matches("Usage: ").replace("\n       ", "\n");
        write!(text, "\n## {name}\n\n{}.\n\n```text\n{usage}\n```\n", about(command)).unwrap();
        let arguments: Vec<&Arg> = command.get_arguments().filter(|it| it.get_id() != "help").collect();
        if !arguments.is_empty() {
            text += "\n| argument | meaning |\n|---|---|\n";
            arguments.into_iter().for_each(|it| text += &argument(it));
        }
        if let Some(help) = command.get_after_help() {
            write!(text, "\n```text\n{help}\n```\n").unwrap();
        }
    }
    text + "\n"
}

#[test]
fn pages_command_line_has_every_command_and_every_flag() {
    check("command-line.md", command_line);
    assert!(
        read(&page("command-line.md")).contains("\n## handover outbox redrive\n"),
        "nothing was generated"
    );
}

#[test]
fn pages_http_api_names_every_route_of_the_openapi_document() {
    let text = read(&page("http-api.md"));
    let document = serde_json::to_value(marketplace_http::openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 30, "{paths:?}");
    for (path, item) in paths {
        for method in ["get", "post", "put", "patch", "delete"].into_iter().filter(|it| item[it].is_object())
        {
            let call = format!("`{} {path}`", method.to_uppercase());
            assert!(text.contains(&call), "bootstrap/docs/http-api.md does not name {call}");
        }
    }
}

/// Sources whose lines have a code.
const CODED: [&str; 2] = ["application", "adapters"];

fn log_codes(_: &str) -> String {
    let lines = log_lines(&root(), &CODED).into_iter();
    let mut rows: Vec<(String, String, String)> =
        lines.filter_map(|LogLine { code, level, text, .. }| Some((code?, level, text))).collect();
    rows.dedup();
    let mut text = "\n| code | level | line |\n|---|---|---|\n".to_owned();
    for (code, level, line) in rows {
        writeln!(text, "| `{code}` | {level} | {} |", cell(&line)).unwrap();
    }
    text + "\n"
}

#[test]
fn pages_logs_has_every_code_and_every_line_above_level_debug_has_one() {
    check("logs.md", log_codes);
    let lines = log_lines(&root(), &CODED);
    assert!(lines.len() > 100, "{lines:#?}");
    let uncoded: Vec<&LogLine> =
        lines.iter().filter(|line| line.code.is_none() && line.level != "DEBUG").collect();
    assert!(uncoded.is_empty(), "give these lines a code: {uncoded:#?}");
    let is_code = |code: &str| {
        code.contains('.') && code.bytes().all(|byte| byte.is_ascii_lowercase() || b".-".contains(&byte))
    };
    let malformed: Vec<&LogLine> =
        lines.iter().filter(|line| line.code.as_deref().is_some_and(|code| !is_code(code))).collect();
    assert!(malformed.is_empty(), "{malformed:#?}");
}

/// The list of metrics, by the source of their values.
fn metrics(_: &str) -> String {
    let mut metrics: Vec<&Metric> =
        handover_runtime::metrics::of_toolkit().chain(marketplace::METRICS).collect();
    metrics.sort_by_key(|metric| (metric.kind == MetricKind::State, metric.name));
    let mut text = String::new();
    let mut section = "";
    for metric in metrics {
        let (of, kind) = match metric.kind {
            MetricKind::Counter => ("Process", "counter"),
            MetricKind::Gauge => ("Process", "gauge"),
            MetricKind::Histogram => ("Process", "histogram"),
            MetricKind::State => ("State", "gauge"),
        };
        if of != section {
            section = of;
            write!(text, "\n## {section}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
                .unwrap();
        }
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, help) = (metric.exported_name(), cell(metric.help));
        writeln!(text, "| `{name}` | {kind} | {} | {help} |", labels.join(", ")).unwrap();
    }
    text + "\n"
}

#[test]
fn pages_metrics_has_every_metric() {
    check("metrics.md", metrics);
    assert!(
        read(&page("metrics.md")).contains("| `outbox_event_pending` | gauge |"),
        "nothing was generated"
    );
}

#[test]
fn pages_readme_is_short() {
    let lines = read(&root().join("README.md")).lines().count();
    assert!(lines <= 200, "{lines} lines; move details to bootstrap/docs");
}

#[test]
fn pages_have_no_broken_link() {
    let pages = pages(&root());
    for known in ["README.md", "bootstrap/docs/tour.md", "tests/README.md", "adapters/sql/outbox/README.md"] {
        assert!(pages.contains(&root().join(known)), "{known} is not among {pages:?}");
    }
    let broken: Vec<String> = pages.iter().flat_map(|page| broken_links(page)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
