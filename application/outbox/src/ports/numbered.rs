//! Rows with their numbers.

/// A row and its number, which is the cursor for paging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered<E> {
    /// Number of the row: greater than the number of every row that was committed before this row was written.
    pub id: i64,
    /// Content of the row.
    pub effect: E,
}
