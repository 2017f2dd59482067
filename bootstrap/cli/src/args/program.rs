//! Arguments of the commands that need a configuration.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use handover_runtime::names::in_own_name;
use handover_runtime::terminal::{Address, Common, OutputArgs};

pub(crate) const DOCTOR_HELP: &str = "\
Each check is ok, warn or fail. Nothing is changed; `doctor` can run while `serve` runs.
Exit codes: 0 no check failed, 1 a check failed, 2 only configuration checks failed,
3 only checks of dependencies failed, because they are unavailable.

Example:
  handover doctor --output json | jq '.checks[] | select(.status != \"ok\")'";

pub(crate) const BACKUP_HELP: &str = "\
The copy contains everything that was committed when the command started, is verified and on disk when the \
command ends, and only its owner may read it. Secrets that the service has generated are in files next to the database; they \
are copied, too. An existing file is never overwritten. Meanwhile `serve` continues; its write-ahead log grows until the copy \
is complete. A database on a server has its own program: \
mariadb-dump --single-transaction (mysqldump) or pg_dump.

To restore, stop the service, move the database file and its -wal and -shm files to another folder, copy FILE to the database \
file and FILE-* to the files of its secrets, run `handover doctor`, and start. The steps for each engine, and after a restore: \
the page about a restore in the documentation.

Examples:
  handover backup /backup/handover-$(date +%F).db
  handover backup /backup/copy.db --database sqlite:///srv/handover/handover.db";

pub(crate) const MIGRATE_HELP: &str = "\
With --print, the exit code is that of the migration: 1 if it would be refused. The printed SQL is for reading and reviewing: \
`migrate` also records each version, and resumes an interrupted migration (MySQL, MariaDB).

Example:
  handover migrate --print > migration.sql";

/// Arguments of `migrate`.
#[derive(Debug, Clone, Args)]
pub struct MigrateArgs {
    /// Flags of every command.
    #[command(flatten)]
    pub common: Common,
    /// Print the SQL that would run, and change nothing
    #[arg(long)]
    pub print: bool,
}

const CONFIG_HELP: &str = "\
Without --running, the command shows what a `serve` in its place would use: its file, its variables and its flags. With \
--running, it reads what the running processes have reported to the database, at most `metrics.state-interval` ago. A \
setting that differs between processes has one row for each value. How to replace each secret without downtime: \
the page about secrets in the documentation.

Example:
  handover config show --running";

/// Arguments of `backup`.
#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// The new file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Flags of every command.
    #[command(flatten)]
    pub common: Common,
}

/// Arguments of `doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Flags of every command.
    #[command(flatten)]
    pub common: Common,
    /// Address flag.
    #[command(flatten)]
    pub address: Address,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Subcommands of `config`.
#[derive(Debug, Clone, Subcommand)]
pub enum ConfigCommand {
    /// Show every key with its value and origin; secrets are hidden
    #[command(after_help = in_own_name(CONFIG_HELP))]
    Show(ConfigShowArgs),
}

/// Arguments of `config show`.
#[derive(Debug, Clone, Args)]
pub struct ConfigShowArgs {
    /// Show the settings of the processes that serve the database now, instead of those of this command
    #[arg(long)]
    pub running: bool,
    /// Flags of every command.
    #[command(flatten)]
    pub common: Common,
    /// Output flag.
    #[command(flatten)]
    pub output: OutputArgs,
}
