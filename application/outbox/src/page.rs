//! Pages of query results.

/// A page of a list, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Rows of this page.
    pub items: Vec<T>,
    /// Cursor of the next page, whose ids are lower than the cursor. `None` on the last page.
    pub next: Option<i64>,
}

impl<T> Page<T> {
    /// Builds a page from at most `limit + 1` rows; the extra row shows that there is a next page.
    pub fn cut(mut items: Vec<T>, limit: u32, id: impl Fn(&T) -> i64) -> Page<T> {
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = if more { items.last().map(id) } else { None };
        Page { items, next }
    }
}
