//! Statements of one's own in a unit of work: own tables change together with ours, or not at all.

use handover_application::ports::{AsAny, Work};
use handover_outbox::ports::StoreError;

use crate::row::Row;
use crate::session::Session;
use crate::value::Value;

/// A unit of work as its SQL sees it. `?` stands for a value, on every engine.
///
/// After a statement failed, or was dropped before it ended, the unit refuses to commit.
pub struct Statements<'u> {
    session: &'u mut Session,
}

impl<'u> Statements<'u> {
    /// The statements of a unit of work of an [`SqlStore`](crate::SqlStore); any other unit is refused.
    pub fn of(unit: &'u mut Work) -> Result<Statements<'u>, StoreError> {
        let session = AsAny::as_any_mut(unit).downcast_mut();
        session
            .map(|session| Statements { session })
            .ok_or_else(|| StoreError::Backend("this unit of work is not of an SQL store".into()))
    }

    /// Runs a statement; tells how many rows it changed.
    pub async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        self.session.execute(sql, values).await
    }

    /// Runs a query and reads all of its rows.
    pub async fn fetch(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        self.session.fetch(sql, values).await
    }
}
