//! Arguments of `handover erase`.

use clap::Args;
use handover_cli::values::reason;
use handover_outbox::operations::Reason;
use handover_runtime::terminal::{Common, OutputArgs};
use marketplace_domain::UserId;

use super::values::user;

pub(super) const HELP: &str = "\
Masks, in all tenants, what the user wrote or what describes the user: titles of products; of finished orders, carrier, \
tracking number, reasons of refunds and free payment methods; payloads, errors, dead letters, webhook deliveries and \
attempts of their settled events, also in the files of the archive; stored responses; and reasons in the audit log. Ids, amounts and times stay. The page \
bootstrap/docs/erasure.md has the details, also about backups.

Orders that are not finished, events that are not settled and files of the archive that cannot be replaced are left, and the \
exit code is 1: run the command again later. A repeated run changes nothing that is masked.

Example:
  handover erase --user 10001 --reason \"request of 2026-01-31, ticket 4711\"";

/// Arguments of `handover erase`.
#[derive(Debug, Clone, Args)]
pub struct EraseArgs {
    /// The user's id
    #[arg(long, value_name = "USER_ID", value_parser = user)]
    pub user: UserId,
    /// Reason, recorded in the audit log; it must not contain personal data
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Reason,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: OutputArgs,
}
