//! Trace context.

/// Trace context of a request. All events caused by the request belong to the same trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// `X-Trace-Id`: 1 to 64 characters of `[A-Za-z0-9_-]` ([`Trace::is_valid_id`]).
    pub trace_id: String,
    /// The W3C `traceparent` of the caller; `None` if the event was not caused by a request.
    pub traceparent: Option<String>,
}

impl Trace {
    /// A trace with this id, and without a parent.
    pub fn new(trace_id: impl Into<String>) -> Trace {
        Trace { trace_id: trace_id.into(), traceparent: None }
    }

    /// Sets the W3C `traceparent` of the caller.
    #[must_use]
    pub fn with_parent(self, traceparent: impl Into<String>) -> Trace {
        Trace { traceparent: Some(traceparent.into()), ..self }
    }

    /// Whether a text can be the id of a trace or of a request: 1 to 64 characters of `[A-Za-z0-9_-]`. Check the header of a
    /// client with it.
    ///
    /// ```
    /// use handover_events::Trace;
    ///
    /// // `X-Trace-Id` of two requests.
    /// let trace = |header: &str| Some(header).filter(|id| Trace::is_valid_id(id)).map(Trace::new);
    /// assert_eq!(trace("6f1d0c2a"), Some(Trace::new("6f1d0c2a")));
    /// assert_eq!(trace("of my browser"), None);
    /// ```
    pub fn is_valid_id(text: &str) -> bool {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    }

    /// Parses a W3C `traceparent` and rewrites it in version 00 (W3C Trace Context §3.2, §4.3: of a later version the first
    /// four fields are read). `None` if it is invalid.
    pub fn parse_parent(traceparent: &str) -> Option<String> {
        let head = traceparent.get(..55)?;
        let mut fields = head.split('-');
        let (version, trace, parent, flags) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let hex = |field: &str, length: usize| {
            field.len() == length
                && field.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        let shaped = hex(version, 2) && hex(trace, 32) && hex(parent, 16) && hex(flags, 2);
        let named = version != "ff"
            && trace.bytes().any(|byte| byte != b'0')
            && parent.bytes().any(|byte| byte != b'0');
        let ends =
            traceparent.len() == 55 || (version != "00" && traceparent.as_bytes().get(55) == Some(&b'-'));
        (shaped && named && ends).then(|| format!("00-{trace}-{parent}-{flags}"))
    }
}
