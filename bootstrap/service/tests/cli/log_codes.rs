//! The codes of log lines, read from the sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Macros that log a line.
const MACROS: [&str; 5] = ["info!(", "warn!(", "error!(", "debug!(", "event_line!("];

/// A line that a program can log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogLine {
    /// `None`: the line has no code.
    pub(crate) code: Option<String>,
    /// Upper case.
    pub(crate) level: String,
    /// Message with `…` for data.
    pub(crate) text: String,
    pub(crate) file: String,
}

/// Every log line in the sources below these folders.
pub(crate) fn log_lines(root: &Path, folders: &[&str]) -> BTreeSet<LogLine> {
    let mut lines = BTreeSet::new();
    for folder in folders {
        for file in sources(&root.join(folder)) {
            let text = std::fs::read_to_string(&file).unwrap();
            let name = file.strip_prefix(root).unwrap().display().to_string();
            lines.extend(calls(&text).filter_map(|call| line_of(call, &name)));
        }
    }
    lines
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "build.rs" {
            found.push(path);
        }
    }
    found
}

/// Name and arguments of each call of a macro that logs.
fn calls(text: &str) -> impl Iterator<Item = (&'static str, Vec<&str>)> {
    let of = move |name: &'static str| {
        let starts = text.match_indices(name).filter(move |(at, _)| {
            let before = text[..*at].chars().next_back();
            before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
        });
        starts.map(move |(at, _)| (name, arguments(&text[at + name.len()..])))
    };
    MACROS.into_iter().flat_map(of)
}

/// Splits the arguments of a call at its commas; `rest` begins after the opening parenthesis.
fn arguments(rest: &str) -> Vec<&str> {
    let mut arguments = Vec::new();
    let (mut depth, mut begin, mut in_text, mut escaped) = (0, 0, false, false);
    for (at, char) in rest.char_indices() {
        if in_text {
            match char {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match char {
            '"' => in_text = true,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                arguments.push(rest[begin..at].trim());
                break;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(rest[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    arguments
}

fn line_of((name, arguments): (&str, Vec<&str>), file: &str) -> Option<LogLine> {
    let text = arguments.iter().find(|argument| argument.starts_with('"'))?;
    let level = match name {
        "event_line!(" => arguments.iter().find(|it| ["INFO", "WARN", "ERROR", "DEBUG"].contains(*it))?,
        name => name.trim_end_matches("!("),
    };
    let code = arguments.iter().find_map(|argument| argument.strip_prefix("code = \"")?.strip_suffix('"'));
    Some(LogLine {
        code: code.map(str::to_owned),
        level: level.to_uppercase(),
        text: shown(text),
        file: file.to_owned(),
    })
}

/// The text of a literal, with `…` for its placeholders.
fn shown(literal: &str) -> String {
    let literal = literal.trim_matches('"').replace("\\\"", "\"");
    let joined: Vec<&str> = literal.split("\\\n").map(str::trim_start).collect();
    let mut text = String::new();
    let mut in_placeholder = false;
    for char in joined.concat().chars() {
        match char {
            '{' => {
                in_placeholder = true;
                text.push('…');
            }
            '}' => in_placeholder = false,
            char if !in_placeholder => text.push(char),
            _ => {}
        }
    }
    text
}
