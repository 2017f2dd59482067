//! Output formats: columns for people, JSON for programs.
//!
//! **Invariant:** text from external sources (reasons, payloads, ids) cannot control the terminal: control characters are
//! escaped.

use std::io::IsTerminal;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;

/// Maximum characters of a table cell; `outbox show` and JSON contain the full text.
const MAX_CELL_CHARS: usize = 72;

/// Width of a column below which it is not shortened to fit a line.
const MIN_COLUMN_CHARS: usize = 8;

/// Characters between two columns, and at both ends of a line.
const GAP: usize = 2;
/// As [`GAP`], with borders: blank, line, blank.
const BORDERED_GAP: usize = 3;

/// Formats rows as columns under a header; borders on a terminal only, where the longest columns are shortened until a row fits
/// one line.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    table_within(header, rows, None)
}

/// As [`table`]; without a terminal, a row has at most `max_chars` characters.
pub fn table_within(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    max_chars: Option<usize>,
) -> String {
    let terminal = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    let is_terminal = std::io::stdout().is_terminal();
    let mut rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.iter().map(|cell| shortened(&visible(cell))).collect()).collect();
    let gap = if is_terminal { BORDERED_GAP } else { GAP };
    let max_chars = max_chars.into_iter().chain(terminal.filter(|_| is_terminal)).min();
    if let Some(max_chars) = max_chars {
        fit(header, &mut rows, max_chars.saturating_sub(gap * header.len()));
    }
    let mut table = Table::new();
    table.set_content_arrangement(ContentArrangement::Disabled).set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    if is_terminal {
        table.load_style(presets::UTF8_FULL_CONDENSED);
        return format!("{table}\n");
    }
    table.load_style(presets::NOTHING);
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    format!("{}\n", table.trim_fmt())
}

/// Shortens the cells of the widest columns until the cells of a row have at most `max_chars` characters together, if that is
/// possible.
fn fit(header: &[&str], rows: &mut [Vec<String>], max_chars: usize) {
    let chars = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = header.iter().map(|name| chars(name)).collect();
    for row in rows.iter() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(chars(cell));
        }
    }
    while widths.iter().sum::<usize>() > max_chars {
        match widths.iter_mut().max() {
            Some(widest) if *widest > MIN_COLUMN_CHARS => *widest -= 1,
            Some(_) | None => break,
        }
    }
    for row in rows {
        for (width, cell) in widths.iter().zip(row) {
            *cell = cut(cell, *width);
        }
    }
}

/// Formats these fields of each item as columns. A column without any value is left out.
pub fn columns(names: &[&str], items: &[Value]) -> String {
    columns_within(names, items, None)
}

/// As [`columns`]; without a terminal, a row has at most `max_chars` characters.
pub fn columns_within(names: &[&str], items: &[Value], max_chars: Option<usize>) -> String {
    let has_value = |name: &&str| items.iter().any(|item| !cell(&item[*name]).is_empty());
    let shown: Vec<&str> = names.iter().copied().filter(|name| items.is_empty() || has_value(name)).collect();
    let row = |item: &Value| shown.iter().map(|name| cell(&item[*name])).collect();
    table_within(&shown, items.iter().map(row), max_chars)
}

/// Formats a result with parts: the fields of nested objects under their path, then each list of objects as a table.
pub fn sections(object: &Value) -> String {
    let mut lines = Vec::new();
    let mut tables = String::new();
    collect_sections("", object, &mut lines, &mut tables);
    let lines: Vec<(&str, String)> =
        lines.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    fields(&lines) + &tables
}

fn collect_sections(path: &str, object: &Value, lines: &mut Vec<(String, String)>, tables: &mut String) {
    for (name, value) in object.as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            Value::Object(_) => collect_sections(&path, value, lines, tables),
            Value::Array(items) if items.iter().any(Value::is_object) => {
                let rows: Vec<Value> = items.iter().map(flattened).collect();
                let mut names: Vec<&str> = Vec::new();
                for name in rows.iter().filter_map(Value::as_object).flatten().map(|(name, _)| name) {
                    if !names.contains(&name.as_str()) {
                        names.push(name);
                    }
                }
                *tables += &format!("\n{path}\n{}", columns(&names, &rows));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                lines.push((path, cell(value)));
            }
        }
    }
}

/// An object with the fields of its nested objects, under their paths.
fn flattened(object: &Value) -> Value {
    let mut lines = Vec::new();
    collect_sections("", object, &mut lines, &mut String::new());
    Value::Object(lines.into_iter().map(|(name, value)| (name, Value::String(value))).collect())
}

/// Formats all fields of an object, one per line; each object of a list gets its own line.
pub fn object(object: &Value) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        match value.as_array() {
            Some(items) if items.iter().any(Value::is_object) => {
                lines.extend(items.iter().map(|item| {
                    let cells: Vec<String> =
                        item.as_object().into_iter().flatten().map(|(_, it)| cell(it)).collect();
                    (name.as_str(), cells.join("  "))
                }));
            }
            Some(_) | None => lines.push((name, cell(value))),
        }
    }
    fields(&lines)
}

/// Formats a value for a cell: text without quotes, null as empty, a list of scalars separated by commas.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if !items.iter().any(|item| item.is_object() || item.is_array()) => {
            items.iter().map(cell).collect::<Vec<_>>().join(", ")
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Formats names and values, one pair per line, without truncation.
pub fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| format!("{name:width$}  {}", visible(value));
    fields.iter().map(|field| format!("{}\n", line(field).trim_end())).collect()
}

/// The view as JSON, with the API's field names.
pub fn value(view: &impl Serialize) -> Value {
    serde_json::to_value(view).unwrap_or_default()
}

/// Pretty-printed JSON.
pub fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    format!("{text}\n")
}

/// Replaces control characters by their escapes.
pub fn visible(text: &str) -> String {
    text.chars()
        .flat_map(|c| match c.is_control() {
            true => c.escape_default().collect::<Vec<_>>(),
            false => vec![c],
        })
        .collect()
}

fn shortened(text: &str) -> String {
    cut(text, MAX_CELL_CHARS)
}

/// The text, with at most this many characters.
fn cut(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    text.chars().take(max_chars.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_without_terminal_has_aligned_columns_and_no_borders_or_trailing_blanks() {
        let rows = [["a", "bb"], ["ccc", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&["one", "two"], rows), "one  two\na    bb\nccc\n");
        assert_eq!(table(&["one", "two"], []), "one  two\n");
    }

    #[test]
    fn rows_fit_the_given_width_and_only_the_widest_columns_are_shortened() {
        let rows = [vec!["short".to_owned(), "x".repeat(60), "y".repeat(40)]];
        let text = table_within(&["a", "b", "c"], rows, Some(60));
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("short  xxx") && text.contains("x…") && text.contains("y…"), "{text}");
    }

    #[test]
    fn column_without_a_value_is_left_out() {
        let items = [serde_json::json!({ "a": 1, "b": null }), serde_json::json!({ "a": 2, "b": "" })];
        assert_eq!(columns(&["a", "b"], &items), "a\n1\n2\n");
        assert_eq!(columns(&["a", "b"], &[]), "a  b\n");
    }

    #[test]
    fn sections_have_the_fields_of_objects_and_a_table_for_each_list() {
        let object = serde_json::json!({
            "outbox": { "new": 1, "retry": 0 },
            "queues": [{ "name": "q", "depth": { "ready": 7 } }],
            "tags": ["a", "b"],
        });
        let shown = sections(&object);
        for part in ["outbox.new    1", "outbox.retry  0", "tags          a, b", "\nqueues\n", "depth.ready"]
        {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn table_escapes_control_characters_and_truncates_long_cells() {
        let text = table(&["x"], [vec!["\u{1b}[2Jgone\n\u{9b}1m".to_owned()], vec!["é".repeat(99)]]);
        assert_eq!(text.lines().count(), 3);
        assert!(text.contains("\\u{1b}[2Jgone\\n\\u{9b}1m"), "{text}");
        assert!(text.ends_with(&format!("{}…\n", "é".repeat(71))), "{text}");
        assert_eq!(
            fields(&[("a", "x\r".to_owned()), ("bcd", "y".repeat(99))]).lines().next(),
            Some("a    x\\r")
        );
    }
}
