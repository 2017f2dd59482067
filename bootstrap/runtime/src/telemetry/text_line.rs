//! Log lines as text, for people: short, each field once. JSON lines have every field.

use std::fmt::{self, Write as _};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::{MakeExt, RecordFields};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer, debug_fn};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Longest line that is no warning or error, in characters.
const MAX_CHARS: usize = 160;

/// Fields that come last, so that they are left out first.
const LAST: [&str; 8] =
    ["eventId", "requestId", "queue", "aggregateType", "aggregateId", "code", "hop", "traceparent"];

/// Separates the fields of a span or event; no field's value contains it.
const SEPARATOR: char = '\u{1f}';

/// Writes the fields of a span or an event so that [`TextLine`] can separate them.
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let field = debug_fn(|writer, field, value| {
            let value = format!("{value:?}").replace(SEPARATOR, " ");
            write!(writer, "{field}={value}{SEPARATOR}")
        });
        field.delimited("").format_fields(writer, fields)
    }
}

/// Time, level, message, and the fields that fit: those of the event before those of its spans.
pub(super) struct TextLine;

impl<S: Subscriber + for<'a> LookupSpan<'a>> FormatEvent<S, Fields> for TextLine {
    fn format_event(
        &self,
        context: &FmtContext<'_, S, Fields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut own = String::new();
        context.format_fields(Writer::new(&mut own), event)?;
        let mut texts = vec![own];
        for span in context.event_scope().into_iter().flatten() {
            texts.extend(
                span.extensions().get::<FormattedFields<Fields>>().map(|fields| fields.fields.clone()),
            );
        }
        let level = *event.metadata().level();
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let is_colored = writer.has_ansi_escapes();
        let limit = if level <= Level::WARN { usize::MAX } else { MAX_CHARS - time.len() - LEVEL_CHARS };
        writeln!(writer, "{time} {} {}", Colored(level, is_colored), line(&texts, limit))
    }
}

/// Characters of a level with its spaces.
const LEVEL_CHARS: usize = 7;

/// Message and fields of at most `limit` characters, unless the message is longer.
fn line(texts: &[String], limit: usize) -> String {
    let mut fields: Vec<(&str, &str)> = Vec::new();
    let mut message = "";
    for (name, value) in
        texts.iter().flat_map(|text| text.split(SEPARATOR)).filter_map(|it| it.split_once('='))
    {
        if name == "message" {
            message = value;
        } else if !fields.iter().any(|(known, _)| *known == name) {
            fields.push((name, value));
        }
    }
    fields.sort_by_key(|(name, _)| match LAST.iter().position(|last| last == name) {
        Some(at) => at + 2,
        // What lines are found by is never left out.
        None => usize::from(*name != "eventType" && !name.ends_with("Id")),
    });
    let mut line = message.to_owned();
    let mut chars = line.chars().count();
    let mut is_complete = true;
    for (name, value) in fields {
        let field = format!(" {name}={}", unquoted(value));
        let more = field.chars().count();
        // Room for the mark of a line that is not complete.
        if chars.saturating_add(more).saturating_add(2) <= limit {
            line.push_str(&field);
            chars += more;
        } else {
            is_complete = false;
        }
    }
    if !is_complete {
        let _ = write!(line, " …");
    }
    line
}

/// The text without its quotes, if it is one word.
fn unquoted(value: &str) -> &str {
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.filter(|inner| !inner.is_empty() && !inner.contains([' ', '"', '\\'])).unwrap_or(value)
}

/// A level in its color, if the log has colors.
struct Colored(Level, bool);

impl fmt::Display for Colored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Colored(level, is_colored) = *self;
        if !is_colored {
            return write!(f, "{level:>5}");
        }
        let color = match level {
            Level::ERROR => 31,
            Level::WARN => 33,
            Level::INFO => 32,
            Level::DEBUG => 34,
            Level::TRACE => 35,
        };
        write!(f, "\x1b[{color}m{level:>5}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(log: impl FnOnce()) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .fmt_fields(Fields)
            .event_format(TextLine)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        // Without the time.
        text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn line_has_each_field_once_and_what_is_searched_first() {
        let lines = logged(|| {
            let _span = tracing::info_span!("request", traceId = %"4bf9", method = "POST").entered();
            let _inner = tracing::info_span!("book", bookId = 7).entered();
            tracing::info!(
                traceId = "4bf9",
                status = 201,
                route = "a b",
                code = "request.completed",
                "request: completed"
            );
        });
        let expected = r#" INFO request: completed traceId=4bf9 bookId=7 status=201 route="a b" method=POST code=request.completed"#;
        assert_eq!(lines, [expected]);
    }

    #[test]
    fn long_line_is_complete_only_as_a_warning() {
        let (long, short) = ("x".repeat(150), "y".repeat(10));
        let lines = logged(|| {
            tracing::info!(long, short, "too much");
            tracing::warn!(long, short, "too much");
        });
        assert_eq!(lines[0], format!(" INFO too much short={short} …"));
        assert_eq!(lines[1], format!(" WARN too much long={long} short={short}"));
    }
}
