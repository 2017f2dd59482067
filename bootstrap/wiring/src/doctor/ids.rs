//! Checks of the counters from which ids are taken.

use handover_events::MAX_ID;
use handover_outbox::ports::{Store, StoreError};
use handover_runtime::Failure;
use handover_runtime::doctor::Check;
use handover_runtime::settings::DatabaseChoice;
use marketplace::ports::{IdKind, IdState};
use marketplace_sql::SqlMarket;

const IDS: &str = "ids";

/// A check for each kind of ids whose counter needs attention.
pub(super) async fn checks(store: &SqlMarket, database: &DatabaseChoice) -> Vec<Check> {
    let failed = |cause| vec![Check::failed(IDS, &Failure::database(database)(cause))];
    problems(store).await.unwrap_or_else(failed)
}

async fn problems(store: &SqlMarket) -> Result<Vec<Check>, StoreError> {
    let mut view = store.view().await?;
    let mut problems = Vec::new();
    for kind in IdKind::ALL {
        let state = view.id_state(kind).await?;
        problems.extend(ids(kind, state));
    }
    Ok(problems)
}

fn ids(kind: IdKind, state: IdState) -> Option<Check> {
    let kind = kind.as_str();
    if state.is_behind() {
        Some(Check::warn(
            IDS,
            format!("the next {kind} id is {}, but id {} exists already", state.next, state.largest),
            "the database was restored or lost commits, so rows may be missing",
            "start `handover serve`: it continues above the largest id; then run `handover reconcile`",
        ))
    } else if state.is_outside_range() {
        Some(Check::warn(
            IDS,
            format!("the next {kind} id is {}, above the largest possible id {MAX_ID}", state.next),
            "no row of this kind can be created",
            "start `handover serve`: it continues above the largest id within the range",
        ))
    } else if state.is_nearly_exhausted() {
        Some(Check::warn(
            IDS,
            format!("the next {kind} id is {}, and the largest possible id is {MAX_ID}", state.next),
            "when no id is left, no row of this kind can be created",
            "renumber imported rows with ids near the limit, set next_id in the table id_blocks to the largest \
             remaining id plus 1, and restart every process",
        ))
    } else {
        None
    }
}
