//! `erase`: masks the texts about a user directly in the database, also while a process serves it.

use handover_cli::Access;
use handover_cli::print::show;
use handover_runtime::terminal::note;
use handover_runtime::{Exit, Failure};
use marketplace_http::views::ErasedUserView;

use super::money::failed;
use super::operator::Operator;
use crate::cli::EraseArgs;

/// `erase`.
pub(super) async fn erase(arguments: &EraseArgs) -> Result<Exit, Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let outbox = &operator.app.outbox;
    let reason = arguments.reason.clone();
    let erased = operator.app.operations.erase_user(outbox, &operator.context, arguments.user, reason).await;
    let erased = erased.map_err(|error| failed(&operator, error))?;
    operator.session.close().await;
    let (orders, events) = (erased.unfinished_orders, erased.unsettled_events());
    let files_left = erased.events.files_left;
    let archived = erased.events.archived;
    let is_complete = erased.is_complete();
    show(arguments.output.output, &ErasedUserView::from(erased))?;
    if orders > 0 || events > 0 {
        note(&format!(
            "{orders} orders are not finished and {events} events are not settled; run again later"
        ));
    }
    if files_left > 0 {
        note(&format!(
            "{files_left} files of the archive with {archived} events may contain texts: they cannot be read or written, or a process \
             writes them; run `handover doctor` and erase again in an hour"
        ));
    }
    Ok(if is_complete { Exit::Done } else { Exit::Failed })
}
