//! Rows by number.

/// What a row says, and the number of the row, by which pages run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered<E> {
    /// The number: greater than that of every row written before, unless both were written at the same time.
    pub id: i64,
    /// What it says.
    pub effect: E,
}
