//! Rows with their ids.

/// A row and its id, which is the cursor for paging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered<E> {
    /// Id of the row: greater than the id of every row that was committed before this row was written.
    pub id: i64,
    /// Content of the row.
    pub effect: E,
}
