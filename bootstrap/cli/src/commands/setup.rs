//! `migrate`, `backup` and `doctor`.

use handover_runtime::doctor::{CONFIGURATION, Check, Report, Subject, examine};
use handover_runtime::stores::{self, Database};
use handover_runtime::terminal::{Common, say, warn};
use handover_runtime::{Exit, Failure, telemetry};
use handover_sql::SchemaVersion;

use crate::args::{BackupArgs, DoctorArgs};
use crate::program::{CommandConfig, Program};

pub(crate) async fn migrate<P: Program>(common: &Common) -> Result<(), Failure> {
    let program: P = common.load()?;
    let CommandConfig { database, log, .. } = program.config();
    let telemetry = telemetry::install(log)?;
    let migrated = Database::migrate(database, P::PARTS).await;
    telemetry.end().await;
    let version = |it: &SchemaVersion| format!("version {} of the {} schema", it.found.unwrap_or(0), it.part);
    let versions: Vec<String> = migrated?.iter().map(version).collect();
    Ok(say(&format!("{database} is at {}\n", versions.join(" and ")))?)
}

pub(crate) async fn backup<P: Program>(arguments: &BackupArgs) -> Result<(), Failure> {
    let program: P = arguments.common.load()?;
    let database = program.config().database;
    let backup = stores::backup(database, P::PARTS, &program.secrets(), &arguments.file).await?;
    let copied = format!("{database} is copied to {} ({} bytes)\n", arguments.file.display(), backup.bytes);
    let secrets = backup.secrets.iter().map(|file| format!("a secret is copied to {}\n", file.display()));
    Ok(say(&std::iter::once(copied).chain(secrets).collect::<String>())?)
}

/// Runs all checks.
pub(crate) async fn doctor<P: Program>(arguments: &DoctorArgs) -> Result<Exit, Failure> {
    let sources = arguments.common.sources(&[arguments.address.flag()]);
    warn(&P::keys(), &sources);
    let report = match P::load(&sources) {
        Ok(program) => {
            let checks = program.checks(&sources);
            let CommandConfig { database, broker, .. } = program.config();
            let subject = Subject {
                description: P::describe(&sources),
                database,
                parts: P::PARTS,
                broker,
                topology: program.topology(),
                queues_depend_on: P::QUEUES_DEPEND_ON,
                listens: program.listens(),
                application: checks.as_ref(),
            };
            examine(&subject).await
        }
        // Without a valid configuration the other checks would test the wrong systems.
        Err(errors) => Report::of(errors.iter().map(|error| Check::refused(CONFIGURATION, error)).collect()),
    };
    say(&report.format(arguments.output.output))?;
    Ok(report.exit())
}
