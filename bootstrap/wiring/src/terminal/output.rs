//! How answers look: columns for a person, JSON for a program.
//!
//! **Invariant:** what strangers wrote (reasons, payloads, ids) moves no cursor: control characters are shown, not sent.

use std::io::IsTerminal;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;

/// The widest that a cell of a list gets; the whole is in `show` and in the JSON.
const CELL: usize = 72;

/// Columns under a header; lines between them on a terminal only.
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

/// What each item says under these names, in columns.
pub fn columns(names: &[&str], items: &[Value]) -> String {
    table(names, items.iter().map(|item| names.iter().map(|name| cell(&item[*name])).collect()))
}

/// Everything that an object says, a field on each line; of a list of objects each on a line of its own.
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

/// A value as a person reads it: text without quotes, nothing for null, a list of texts with commas.
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

/// A name and its value on each line, nothing cut.
pub fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| format!("{name:width$}  {}", visible(value));
    fields.iter().map(|field| format!("{}\n", line(field).trim_end())).collect()
}

/// What an answer says, as the API would write it.
pub fn value(view: &impl Serialize) -> Value {
    serde_json::to_value(view).unwrap_or_default()
}

/// JSON over several lines.
pub fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    format!("{text}\n")
}

/// Control characters as their escapes.
pub fn visible(text: &str) -> String {
    text.chars()
        .flat_map(|c| match c.is_control() {
            true => c.escape_default().collect::<Vec<_>>(),
            false => vec![c],
        })
        .collect()
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= CELL {
        return text.to_owned();
    }
    text.chars().take(CELL - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_one_another_without_borders_or_trailing_blanks() {
        let rows = [["a", "bb"], ["ccc", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&["one", "two"], rows), "one  two\na    bb\nccc\n");
        assert_eq!(table(&["one", "two"], []), "one  two\n");
    }

    #[test]
    fn what_would_move_the_cursor_is_shown_and_what_is_long_is_cut() {
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
