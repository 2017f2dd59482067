//! A line of the table: a request, and what must come of it.

use handover_tests::client::Caller;

use super::wire::{Framing, Request};

/// A request and what must come of it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) request: Request,
    /// Whose token it carries; the program makes it.
    pub(crate) by: Option<Caller>,
    /// Whether it is given an idempotency key of its own where one is required.
    pub(crate) keyed: bool,
    /// As of how many seconds from now the gateway signs the body.
    pub(crate) signed: Option<i64>,
    pub(crate) expected: Expected,
}

/// What must come of a request.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    /// What `data.errors` names; a refusal that names nothing carries no data.
    pub(crate) fields: Vec<String>,
    pub(crate) database: Database,
}

/// What may become of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    /// It stays as it is.
    Unchanged,
    /// Something is written.
    Changed,
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
    /// With the token of that caller.
    pub(crate) fn by(self, caller: impl Into<Caller>) -> Case {
        Case { by: Some(caller.into()), ..self }
    }

    /// Without a token.
    pub(crate) fn by_nobody(self) -> Case {
        Case { by: None, ..self }
    }

    /// Without an idempotency key, whatever is required.
    pub(crate) fn unkeyed(self) -> Case {
        Case { keyed: false, ..self }
    }

    /// With a token of whatever making.
    pub(crate) fn bearing(self, token: &str) -> Case {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Case {
        self.request.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this body, called JSON.
    pub(crate) fn json(self, body: &str) -> Case {
        self.header("Content-Type", "application/json").body(body)
    }

    /// With this body, called nothing.
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Case {
        self.request.body = body.into();
        self
    }

    pub(crate) fn framed(mut self, framing: Framing) -> Case {
        self.request.framing = framing;
        self
    }

    /// Signed by the gateway, as of so many seconds from now.
    pub(crate) fn signed(self, seconds: i64) -> Case {
        Case { signed: Some(seconds), ..self }
    }

    /// Must be refused, with these fields named, and change nothing.
    pub(crate) fn refused(self, status: u16, code: &'static str, fields: &[&str]) -> Case {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        Case { expected: Expected { status, code, fields, database: Database::Unchanged }, ..self }
    }

    /// Must be refused for these fields.
    pub(crate) fn invalid(self, fields: &[&str]) -> Case {
        self.refused(400, "A0400", fields)
    }

    /// Must be answered as done, and change nothing: a look, or what was done before.
    pub(crate) fn unchanged(self, status: u16) -> Case {
        self.refused(status, "00000", &[])
    }

    /// Must be done, and be seen in the database.
    pub(crate) fn done(self, status: u16) -> Case {
        let expected = Expected { status, code: "00000", fields: Vec::new(), database: Database::Changed };
        Case { expected, ..self }
    }
}
