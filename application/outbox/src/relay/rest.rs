//! What a window leaves to be published.

/// Whether rows are due besides those of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    None,
    Unknown,
    Some,
}

impl Rest {
    /// After a window with this number of rows and this limit. Unreadable rows may be missing in a window, and count against the
    /// limit: only a window far below it has all rows.
    pub(super) fn after(rows: usize, limit: u32) -> Rest {
        match u32::try_from(rows).unwrap_or(u32::MAX) {
            rows if rows >= limit => Rest::Some,
            rows if rows == 0 || rows < limit / 2 => Rest::None,
            _ => Rest::Unknown,
        }
    }
}
