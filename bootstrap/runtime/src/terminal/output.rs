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

/// Formats rows as columns under a header; borders on a terminal only.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.set_content_arrangement(ContentArrangement::Disabled).set_header(header.to_vec());
    for row in rows {
        table.add_row(row.iter().map(|cell| shortened(&visible(cell))).collect::<Vec<_>>());
    }
    if std::io::stdout().is_terminal() {
        table.load_style(presets::UTF8_FULL_CONDENSED);
        return format!("{table}\n");
    }
    table.load_style(presets::NOTHING);
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    format!("{}\n", table.trim_fmt())
}

/// Formats these fields of each item as columns.
pub fn columns(names: &[&str], items: &[Value]) -> String {
    table(names, items.iter().map(|item| names.iter().map(|name| cell(&item[*name])).collect()))
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
    if text.chars().count() <= MAX_CELL_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_CELL_CHARS - 1).chain(['…']).collect()
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
