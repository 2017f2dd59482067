//! The log of the tests. It is the process's one subscriber, set before the first line: a line that is first written on a
//! thread without a subscriber is switched off for all threads. Each test has a thread, and lines of its own.

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
    /// The fields of each span; its id is its place, counted from 1.
    spans: Vec<String>,
    entered: Vec<Id>,
    /// Each line behind the fields of the spans in which it was written.
    written: Vec<String>,
}

/// Keeps lines from here on.
pub(crate) fn keep() {
    static SET: Once = Once::new();
    SET.call_once(|| tracing::subscriber::set_global_default(Log).unwrap());
}

/// The lines that this test has written.
pub(crate) fn lines() -> Vec<String> {
    LINES.with_borrow(|lines| lines.written.clone())
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
        LINES.with_borrow_mut(|lines| {
            let around = |id: &Id| lines.spans[usize::try_from(id.into_u64()).unwrap() - 1].clone();
            let line = lines.entered.iter().map(around).chain([text.0]).collect();
            lines.written.push(line);
        });
    }

    fn enter(&self, span: &Id) {
        LINES.with_borrow_mut(|lines| lines.entered.push(span.clone()));
    }

    fn exit(&self, span: &Id) {
        LINES.with_borrow_mut(|lines| lines.entered.retain(|entered| entered != span));
    }
}
