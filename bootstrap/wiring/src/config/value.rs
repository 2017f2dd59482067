//! Parses the text of a default, a variable or a flag: a boolean, a number, a list, an inline table, otherwise text.
//!
//! The syntax is that of TOML, but text needs no quotes, because a shell removes them: `[10.0.0.0/8]`,
//! `{base = 200ms, cap = 5s}`.

use toml::{Table, Value};

/// Maximum nesting of lists and tables, far deeper than any setting, so that no variable can overflow the stack.
const MAX_DEPTH: usize = 32;

/// Parses a value. Never fails: input that is not another kind of value is text.
pub(super) fn read_value(text: &str) -> Value {
    let mut parser = Parser { rest: text, depth: 0 };
    match parser.value() {
        Some(value) if parser.rest.is_empty() => value,
        _ => Value::String(text.to_owned()),
    }
}

/// The unparsed rest. A method returns `None` if the input has another form.
struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn value(&mut self) -> Option<Value> {
        self.skip_space();
        let value = match self.rest.chars().next() {
            Some('"') => Value::String(self.quoted()?),
            Some('[') => Value::Array(self.nested(Parser::list)?),
            Some('{') => Value::Table(self.nested(Parser::table)?),
            _ => scalar(self.take_while(|c| !matches!(c, ',' | '{' | '}' | '[' | ']')).trim()),
        };
        self.skip_space();
        Some(value)
    }

    fn nested<T>(&mut self, inner: impl Fn(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let read = if self.depth > MAX_DEPTH { None } else { inner(self) };
        self.depth -= 1;
        read
    }

    fn list(&mut self) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        self.separated('[', ']', |parser| {
            items.push(parser.value()?);
            Some(())
        })?;
        Some(items)
    }

    fn table(&mut self) -> Option<Table> {
        let mut entries = Table::new();
        self.separated('{', '}', |parser| {
            let name = parser.name()?;
            parser.skip_space();
            parser.take('=')?;
            entries.insert(name, parser.value()?);
            Some(())
        })?;
        Some(entries)
    }

    /// Comma-separated items; a trailing comma is allowed.
    fn separated(
        &mut self,
        open: char,
        close: char,
        mut item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.take(open)?;
        loop {
            self.skip_space();
            if self.take(close).is_some() {
                return Some(());
            }
            item(self)?;
            if self.take(',').is_none() {
                return self.take(close);
            }
        }
    }

    fn name(&mut self) -> Option<String> {
        if self.rest.starts_with('"') {
            return self.quoted();
        }
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// Text in double quotes, unescaped by the TOML parser.
    fn quoted(&mut self) -> Option<String> {
        let mut escaped = false;
        let (end, _) = self.rest.char_indices().skip(1).find(|(_, c)| {
            let closes = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            closes
        })?;
        let (quoted, rest) = self.rest.split_at(end + 1);
        self.rest = rest;
        quoted.parse::<Value>().ok()?.as_str().map(str::to_owned)
    }

    fn skip_space(&mut self) {
        self.take_while(|c| c.is_ascii_whitespace());
    }

    fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !accepts(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn take(&mut self, expected: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(expected)?;
        Some(())
    }
}

fn scalar(text: &str) -> Value {
    if let Ok(truth) = text.parse() {
        return Value::Boolean(truth);
    }
    if let Ok(number) = text.parse() {
        return Value::Integer(number);
    }
    // A float needs a point, so that "inf" and "nan" stay text.
    match text.parse() {
        Ok(number) if text.contains('.') => Value::Float(number),
        _ => Value::String(text.to_owned()),
    }
}
