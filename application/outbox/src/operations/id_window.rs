//! Limits the ids that one call searches if no index supports its filter.

use handover_events::OutboxStatus;

use crate::ports::{OperatorQueries, OutboxFilter, StoreError};

/// Maximum number of ids that one call searches if no index supports its filter. Without this bound, a filter that few rows
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
