//! `migrate`, `backup` and `doctor`.

use handover_runtime::doctor::{CONFIGURATION, Check, Report, Subject, examine};
use handover_runtime::names::in_own_name;
use handover_runtime::settings::DatabaseChoice;
use handover_runtime::stores::{self, Database};
use handover_runtime::terminal::{say, warn};
use handover_runtime::{Exit, Failure, telemetry};
use handover_sql::{PendingMigration, SchemaVersion};

use crate::args::{BackupArgs, DoctorArgs, MigrateArgs};
use crate::program::{CommandConfig, Program};

pub(crate) async fn migrate<P: Program>(arguments: &MigrateArgs) -> Result<(), Failure> {
    let program: P = arguments.common.load()?;
    let CommandConfig { database, log, .. } = program.config();
    if arguments.print {
        let pending = Database::pending(database, P::PARTS).await?;
        return Ok(say(&script(database, &pending))?);
    }
    let telemetry = telemetry::install(log)?;
    let migrated = Database::migrate(database, P::PARTS).await;
    telemetry.end().await;
    let version = |it: &SchemaVersion| format!("version {} of the {} schema", it.found.unwrap_or(0), it.part);
    let versions: Vec<String> = migrated?.iter().map(version).collect();
    Ok(say(&format!("{database} is at {}\n", versions.join(" and ")))?)
}

/// The SQL of these migrations, with comments.
fn script(database: &DatabaseChoice, pending: &[PendingMigration]) -> String {
    if pending.is_empty() {
        return format!("-- {database}: no migration is pending; nothing would run.\n");
    }
    let mut script = in_own_name(&format!(
        "-- {database}: the SQL that `handover migrate` would run. Nothing was changed.\n"
    ));
    for PendingMigration { part, version, description, sql, is_interrupted } in pending {
        script += &format!("\n-- Version {version} of the {part} schema: {description}\n");
        if *is_interrupted {
            script += "-- An earlier run was interrupted: statements whose change exists are skipped.\n";
        }
        script += &format!("\n{}\n", sql.trim_end());
    }
    script
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
