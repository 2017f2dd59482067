//! The example `clinic` of the facade crate, as a process: its own migrations beside those of the outbox, on PostgreSQL and
//! RabbitMQ.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use handover_tests::process::{BoxError, START_WITHIN, eventually};
use handover_tests::rabbit_rigs;
use handover_tests::server_rigs::shared;
use handover_tests::servers::database::ServerKind;
use serde_json::json;

/// The running example; it is killed when it is dropped.
struct Clinic(Child);

impl Drop for Clinic {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Cargo builds the examples beside the folder of this program.
fn program() -> Result<PathBuf, BoxError> {
    let this = std::env::current_exe()?;
    let folder = this.ancestors().nth(2).ok_or("a test program is two folders deep")?;
    let program = folder.join("examples/clinic");
    if program.is_file() {
        return Ok(program);
    }
    Err(format!("{} does not exist; build it: cargo build --workspace --examples", program.display()).into())
}

/// The rest of the line that begins with this text.
fn line_with(output: &Path, begin: &str) -> Result<String, BoxError> {
    let printed = std::fs::read_to_string(output)?;
    let rest = printed.lines().find_map(|line| line.strip_prefix(begin));
    rest.map(str::to_owned).ok_or_else(|| format!("no line with {begin:?}: {printed}").into())
}

#[tokio::test]
async fn clinic_books_an_appointment_writes_its_reminder_once_and_stops() -> Result<(), BoxError> {
    let database = shared(ServerKind::Postgres).await.database(None).await?;
    let vhost = rabbit_rigs::shared().await.vhost().await?;
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("output");
    let child = Command::new(program()?)
        .env("DATABASE_URL", database.url())
        .env("AMQP_URL", vhost.url())
        .env("LISTEN", "127.0.0.1:0")
        .stdin(Stdio::null())
        .stdout(File::create(&output)?)
        .spawn()?;
    let mut clinic = Clinic(child);
    let address = eventually(START_WITHIN, async || line_with(&output, "clinic listens on ")).await;

    let http = reqwest::Client::new();
    let booked =
        http.post(format!("{address}/appointments")).json(&json!({ "patient": "ann" })).send().await?;
    assert_eq!(booked.error_for_status()?.json::<i64>().await?, 1);
    eventually(START_WITHIN, async || {
        let reminders: Vec<String> = http.get(format!("{address}/reminders")).send().await?.json().await?;
        if reminders == ["ann"] { Ok(()) } else { Err(format!("reminders: {reminders:?}").into()) }
    })
    .await;
    eventually(START_WITHIN, async || line_with(&output, "sms to ann (key ")).await;

    Command::new("kill").args(["-INT", &clinic.0.id().to_string()]).status()?;
    let status =
        eventually(START_WITHIN, async || clinic.0.try_wait()?.ok_or_else(|| "not stopped".into())).await;
    assert!(status.success(), "{status}");
    Ok(())
}
