//! Arguments of `handover backup`.

use std::path::PathBuf;

use clap::Args;

use handover_runtime::terminal::Common;

pub(super) const HELP: &str = "\
The copy contains everything that was committed when the command started, is verified and on disk when the \
command ends, and only its owner may read it. An existing file is never overwritten. Meanwhile `serve` \
continues; its write-ahead log grows until the copy is complete. A database on a server has its own program: \
mariadb-dump --single-transaction (mysqldump) or pg_dump.

Examples:
  handover backup /backup/shop-$(date +%F).db
  handover backup /backup/shop.db --database sqlite:///srv/shop/handover.db";

/// Arguments of `handover backup`.
#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// The new file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub common: Common,
}
