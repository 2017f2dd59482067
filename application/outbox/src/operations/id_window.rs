//! Limits the ids that one call searches if no index serves its filter.

use async_trait::async_trait;
use handover_events::OutboxStatus;

use crate::page::Page;
use crate::ports::{OperatorQueries, OutboxFilter, StoreError};

/// Maximum number of ids that one call searches if no index serves its filter. Without this bound, a filter that few rows
/// match would read the whole table, up to the time limit of the statement, and each repetition would do the same.
pub(crate) const MAX_IDS: i64 = 100_000;

/// Whether an index finds the rows of an aggregate, or those that are not `SENT`.
pub(crate) fn is_indexed(filter: &OutboxFilter) -> bool {
    filter.aggregate_id.is_some() || filter.status.is_some_and(|status| status != OutboxStatus::Sent)
}

/// The filter for a search in ascending order of ids that begins after `after`.
pub(crate) async fn bounded_after(
    rows: &mut (impl OperatorQueries + ?Sized),
    filter: OutboxFilter,
    after: Option<i64>,
) -> Result<OutboxFilter, StoreError> {
    if is_indexed(&filter) {
        return Ok(filter);
    }
    let first = rows.outbox_after(&OutboxFilter::default(), after, 1).await?;
    Ok(OutboxFilter { below_id: first.first().map(|row| row.id.saturating_add(MAX_IDS)), ..filter })
}

/// The cursor at which the search for a filter of [`bounded_after`] continues; `None`: no rows have greater ids.
pub(crate) async fn next_after(
    rows: &mut (impl OperatorQueries + ?Sized),
    filter: &OutboxFilter,
) -> Result<Option<i64>, StoreError> {
    let Some(below) = filter.below_id else { return Ok(None) };
    let later = rows.outbox_after(&OutboxFilter::default(), Some(below - 1), 1).await?;
    Ok(later.first().map(|row| row.id - 1))
}

/// A filter of a list whose pages are read in descending order of ids. `V` is the view that the rows are read from.
///
/// The ids of the table MUST be dense: a page searches a range of 100,000 of them, however many exist.
#[async_trait]
pub trait PagedFilter<V: ?Sized>: Sized + Send + Sync {
    /// A row of the list.
    type Row: Send;

    /// The id of a row, which is the cursor for paging. Ids MUST be unique.
    fn id(row: &Self::Row) -> i64;

    /// `None`: an index finds the rows of this filter in the order of ids. Otherwise the rows among which they are searched:
    /// a filter that an index serves, and that MUST match every row of this one.
    fn searched(&self) -> Option<Self>;

    /// The id above which rows match; `None`: any.
    fn above_id(&mut self) -> &mut Option<i64>;

    /// At most `limit` matching rows with an id below `before`, greatest id first.
    ///
    /// # Errors
    /// Those of the store.
    async fn rows(&self, view: &mut V, before: Option<i64>, limit: u32)
    -> Result<Vec<Self::Row>, StoreError>;
}

/// A page of a list, newest first. If no index serves the filter, at most 100,000 ids are searched: the page may have fewer than
/// `limit` rows although there is a next page.
///
/// # Errors
/// Those of the store.
pub async fn page_of<V: ?Sized + Send, F: PagedFilter<V>>(
    view: &mut V,
    mut filter: F,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<F::Row>, StoreError> {
    let Some(searched) = filter.searched() else {
        let rows = filter.rows(view, before, limit.saturating_add(1)).await?;
        return Ok(Page::cut(rows, limit, F::id));
    };
    let newest = searched.rows(view, before, 1).await?;
    let Some(newest) = newest.first() else { return Ok(Page { items: Vec::new(), next: None }) };
    let above = F::id(newest).saturating_sub(MAX_IDS);
    let lowest = filter.above_id();
    let is_limited = lowest.is_none_or(|lowest| lowest < above);
    if is_limited {
        *lowest = Some(above);
    }
    let rows = filter.rows(view, before, limit.saturating_add(1)).await?;
    let mut page = Page::cut(rows, limit, F::id);
    if page.next.is_none() && is_limited {
        let older = searched.rows(view, Some(above.saturating_add(1)), 1).await?;
        page.next = older.first().map(|row| F::id(row).saturating_add(1));
    }
    Ok(page)
}
