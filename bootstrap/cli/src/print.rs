//! Output of results: a table for people, JSON for programs.

use handover_http::views::Listed;
use handover_outbox::Page;
use handover_runtime::terminal::{Output, OutputError, note, output, say};
use serde::Serialize;
use serde_json::{Value, json};

/// Prints `{"items": [...], "nextCursor": ...}`, or a table.
pub fn list<T, V: Listed>(format: Output, page: Page<T>, view: impl Fn(T) -> V) -> Result<(), OutputError> {
    let items: Vec<Value> = page.items.into_iter().map(|item| output::value(&view(item))).collect();
    match page.next {
        Some(next) => note(&format!("more rows exist: continue with --cursor {next}")),
        None if items.is_empty() && format == Output::Table => note("no rows match"),
        None => {}
    }
    say(&match format {
        Output::Table => table::<V>(&items),
        Output::Json => {
            output::json(&json!({ "items": items, "nextCursor": page.next.map(|next| next.to_string()) }))
        }
    })
}

/// Formats these views, as JSON, as the table of a list.
pub fn table<V: Listed>(views: &[Value]) -> String {
    output::columns(V::COLUMNS, views)
}

/// Prints one result with parts: its fields, and each of its lists as a table.
pub fn show_sections(format: Output, view: &impl Serialize) -> Result<(), OutputError> {
    say(&match format {
        Output::Table => output::sections(&output::value(view)),
        Output::Json => output::json(view),
    })
}

/// Prints all fields of one result.
pub fn show(format: Output, view: &impl Serialize) -> Result<(), OutputError> {
    say(&match format {
        Output::Table => output::object(&output::value(view)),
        Output::Json => output::json(view),
    })
}
