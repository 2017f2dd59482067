//! Rows with their numbers.

/// A row and its number, which is the cursor for paging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered<E> {
    /// Greater than the number of every row written earlier, unless both were written at the same time.
    pub id: i64,
    /// Content of the row.
    pub effect: E,
}
