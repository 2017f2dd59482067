//! Pages of lists.

/// A page of a list, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page begins: everything below this id. `None` on the last page.
    pub next: Option<i64>,
}

impl<T> Page<T> {
    /// From one row more than asked for.
    pub fn cut(mut items: Vec<T>, limit: u32, id: impl Fn(&T) -> i64) -> Page<T> {
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = if more { items.last().map(id) } else { None };
        Page { items, next }
    }
}
