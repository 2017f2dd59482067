//! A row of the table of invalid input: a request and the expected result.

use handover_tests::client::Caller;

use super::wire::{Framing, Request};

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) request: Request,
    /// The caller whose token the request carries, issued by the program.
    pub(crate) by: Option<Caller>,
    /// Whether the request gets a new idempotency key if its route requires a key.
    pub(crate) keyed: bool,
    /// Timestamp of the gateway's signature in seconds from now; `None` sends no signature.
    pub(crate) signed: Option<i64>,
    pub(crate) expected: Expected,
}

/// Expected response and expected effect on the database.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    /// The fields in `data.errors`. An error response without fields has no data.
    pub(crate) fields: Vec<String>,
    pub(crate) database: Database,
}

/// Expected effect on the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    /// No table changes.
    Unchanged,
    /// At least one table changes.
    Changed,
    /// Only the table of gateway reports changes.
    Reported,
}

fn case(name: &str, method: &'static str, path: &str) -> Case {
    Case {
        name: name.to_owned(),
        request: Request {
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            framing: Framing::Length,
        },
        by: None,
        keyed: true,
        signed: None,
        expected: Expected { status: 0, code: "", fields: Vec::new(), database: Database::Unchanged },
    }
}

pub(crate) fn get(name: &str, path: &str) -> Case {
    case(name, "GET", path)
}

pub(crate) fn post(name: &str, path: &str) -> Case {
    case(name, "POST", path)
}

pub(crate) fn with_method(name: &str, method: &'static str, path: &str) -> Case {
    case(name, method, path)
}

impl Case {
    pub(crate) fn by(self, caller: impl Into<Caller>) -> Case {
        Case { by: Some(caller.into()), ..self }
    }

    pub(crate) fn named(self, name: &str) -> Case {
        Case { name: name.to_owned(), ..self }
    }

    pub(crate) fn without_token(self) -> Case {
        Case { by: None, ..self }
    }

    /// Omits the idempotency key even if it is required.
    pub(crate) fn without_key(self) -> Case {
        Case { keyed: false, ..self }
    }

    /// Sends this token, which may be invalid.
    pub(crate) fn bearing(self, token: &str) -> Case {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Case {
        self.request.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends this body as `application/json`.
    pub(crate) fn json(self, body: &str) -> Case {
        self.header("Content-Type", "application/json").body(body)
    }

    /// Sends this body without a content type.
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Case {
        self.request.body = body.into();
        self
    }

    pub(crate) fn framed(mut self, framing: Framing) -> Case {
        self.request.framing = framing;
        self
    }

    /// Adds a signature of the gateway, with a timestamp this many seconds from now.
    pub(crate) fn signed(self, seconds: i64) -> Case {
        Case { signed: Some(seconds), ..self }
    }

    /// Expects an error response that names these fields, and an unchanged database.
    pub(crate) fn refused(self, status: u16, code: &'static str, fields: &[&str]) -> Case {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        Case { expected: Expected { status, code, fields, database: Database::Unchanged }, ..self }
    }

    /// Expects a validation error for these fields.
    pub(crate) fn invalid(self, fields: &[&str]) -> Case {
        self.refused(400, "A0400", fields)
    }

    /// Expects success and an unchanged database: a read, or a repeated request.
    pub(crate) fn unchanged(self, status: u16) -> Case {
        self.refused(status, "00000", &[])
    }

    /// Expects that the report of the gateway is recorded, and that no other table changes.
    pub(crate) fn recorded(self) -> Case {
        let expected = Expected { database: Database::Reported, ..self.expected };
        Case { expected, ..self }
    }

    /// Expects success and a changed database.
    pub(crate) fn done(self, status: u16) -> Case {
        let expected = Expected { status, code: "00000", fields: Vec::new(), database: Database::Changed };
        Case { expected, ..self }
    }
}
