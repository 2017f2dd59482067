//! Captures log lines in tests. The subscriber is global and installed before the first log line: tracing disables a
//! call site for all threads if it is first used on a thread without a subscriber. Each test runs on its own thread
//! and has its own lines.

use std::cell::RefCell;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    static LINES: RefCell<Lines> = RefCell::default();
}

#[derive(Default)]
struct Lines {
    /// Fields of each span; the span id is the index, starting at 1.
    spans: Vec<String>,
    entered: Vec<Id>,
    /// Log lines, each preceded by the fields of the entered spans.
    lines: Vec<String>,
}

pub(crate) fn capture() {
    static SET: Once = Once::new();
    SET.call_once(|| tracing::subscriber::set_global_default(Log).unwrap());
}

/// Log lines of this test with this part.
pub(crate) fn with(part: &str) -> Vec<String> {
    lines().into_iter().filter(|line| line.contains(part)).collect()
}

/// Log lines of this test.
pub(crate) fn lines() -> Vec<String> {
    LINES.with_borrow(|lines| lines.lines.clone())
}

struct Log;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text(String::new());
        span.record(&mut text);
        LINES.with_borrow_mut(|lines| {
            lines.spans.push(text.0);
            Id::from_u64(u64::try_from(lines.spans.len()).unwrap())
        })
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        text.0 += &format!("level={} target={}", event.metadata().level(), event.metadata().target());
        LINES.with_borrow_mut(|lines| {
            let around = |id: &Id| lines.spans[usize::try_from(id.into_u64()).unwrap() - 1].clone();
            let line = lines.entered.iter().map(around).chain([text.0]).collect();
            lines.lines.push(line);
        });
    }

    fn enter(&self, span: &Id) {
        LINES.with_borrow_mut(|lines| lines.entered.push(span.clone()));
    }

    fn exit(&self, span: &Id) {
        LINES.with_borrow_mut(|lines| lines.entered.retain(|entered| entered != span));
    }
}
