//! Order of locks.

/// Sorts and deduplicates keys. Locking in sorted order prevents deadlocks between units of work that lock the same
/// rows.
pub(crate) fn sorted_unique<T: Ord>(keys: impl Iterator<Item = T>) -> Vec<T> {
    let mut keys: Vec<T> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
