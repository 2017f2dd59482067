//! Settings of the running processes.

use super::{Action, OperationError, Operator, count};
use crate::outbox::Outbox;
use crate::process_report::facts;
use crate::running_settings::RunningSetting;

/// A running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningProcess {
    /// Random id of the run of the process.
    pub process: String,
    /// Its settings, in the order of the documentation.
    pub settings: Vec<RunningSetting>,
}

/// The settings of the processes that use this database now, as each has reported them last. A process that has ended
/// without a stop counts for three more intervals of its reports. Secrets are not reported. Only for operators of all tenants.
pub async fn running_settings(
    outbox: &Outbox,
    operator: &Operator,
) -> Result<Vec<RunningProcess>, OperationError> {
    if !operator.sees_all_tenants {
        return Err(OperationError::ForAllTenants);
    }
    let mut view = outbox.view().await?;
    let reported = facts(view.outbox_view()).await?;
    drop(view);
    let reported =
        reported.into_iter().map(|(process, facts)| RunningProcess { process, settings: facts.settings });
    let processes: Vec<RunningProcess> = reported.filter(|process| !process.settings.is_empty()).collect();
    Action::read("config.show", []).record(&outbox.tx, operator, None, count(processes.len())).await?;
    Ok(processes)
}
