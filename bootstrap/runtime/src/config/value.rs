//! Parses the text of a default, a variable or a flag: a boolean, a number, a list, an inline table, otherwise text.
//!
//! The syntax is that of TOML, but text needs no quotes, because a shell removes them: `[10.0.0.0/8]`,
//! `{base = 200ms, cap = 5s}`.

use toml::{Table, Value};

/// Parses a value. Never fails: input that cannot be parsed as another type is text.
pub fn read_value(text: &str) -> Value {
    let document = with_quotes(text).and_then(|value| format!("value = {value}").parse::<Table>().ok());
    let value = document.and_then(|mut document| document.remove("value"));
    value.unwrap_or_else(|| Value::from(text))
}

/// Adds the quotes that TOML requires around text; `None` if a quoted text has no end.
fn with_quotes(mut rest: &str) -> Option<String> {
    let mut toml = String::new();
    let mut brackets = Vec::new();
    let mut expects_name = false;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return Some(toml) };
        let end = match first {
            '"' => quoted_length(rest)?,
            '{' | '}' | '[' | ']' | ',' => 1,
            _ if expects_name => rest.find('=').map_or(rest.len(), |at| at + 1),
            _ => rest.find(['{', '}', '[', ']', ',']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        let is_text = !expects_name && !matches!(first, '"' | '{' | '}' | '[' | ']' | ',');
        toml += &if is_text { scalar(token.trim_end()) } else { token.to_owned() };
        toml.push(' ');
        match first {
            '{' | '[' => brackets.push(first),
            '}' | ']' => drop(brackets.pop()),
            _ => {}
        }
        expects_name = match first {
            '{' | ',' => brackets.last() == Some(&'{'),
            '"' => expects_name,
            _ => false,
        };
    }
}

/// Length of the text in double quotes at the start.
fn quoted_length(text: &str) -> Option<usize> {
    let mut escaped = false;
    let closing = text.char_indices().skip(1).find(|(_, c)| {
        let closes = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        closes
    });
    closing.map(|(at, _)| at + 1)
}

fn scalar(text: &str) -> String {
    if text.parse::<bool>().is_ok() {
        return text.to_owned();
    }
    if let Ok(number) = text.parse::<i64>() {
        return number.to_string();
    }
    match text.parse::<f64>() {
        // A float needs a point, so that "inf" and "nan" stay text.
        Ok(number) if text.contains('.') => format!("{number:?}"),
        // The escapes of JSON are also escapes of TOML.
        _ => serde_json::Value::from(text).to_string(),
    }
}
