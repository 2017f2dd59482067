//! The command line: a day of the library, and for operators the toolkit's commands and routes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use axum::Router;
use axum::http::request::Parts;
use clap::{Parser, Subcommand};
use handover_cli::{CommandConfig, Program, Reach, Session};
use handover_events::{TenantId, Trace};
use handover_http::envelope::Code;
use handover_http::refusal::Refusal;
use handover_http::{OperatorState, operator_router};
use handover_outbox::Outbox;
use handover_outbox::operations::Operator;
use handover_outbox::ports::Broker;
use handover_outbox::topology::Topology;
use handover_runtime::config::{Checked, Configuration, Reader};
use handover_runtime::names::{ProgramNames, set_names};
use handover_runtime::secrets::SecretKind;
use handover_runtime::settings::ToolkitConfig;
use handover_runtime::stores::{AttachedDatabase, transactor};
use handover_runtime::terminal::Common;
use handover_runtime::webhooks::{self, webhooks};
use handover_runtime::{Explained, Failure};
use tokio::net::TcpListener;

use crate::library;

/// A lending library on handover
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Lend three books, remind their readers and send webhooks (the default)
    Day {
        /// The new database file [default: a temporary one]
        database: Option<PathBuf>,
    },
    /// Serve the operators' routes under /admin/outbox
    Serve {
        /// Address and port; port 0 selects any free port
        address: SocketAddr,
        #[command(flatten)]
        common: Common,
    },
    #[command(flatten)]
    Operators(handover_cli::Command),
}

struct Library(ToolkitConfig);

impl Configuration for Library {
    fn read(reader: &Reader<'_>) -> Checked<Library> {
        ToolkitConfig::read(reader).map(Library)
    }
}

impl Program for Library {
    fn config(&self) -> CommandConfig<'_> {
        CommandConfig::from(&self.0)
    }

    fn secrets(&self) -> Vec<&'static SecretKind> {
        vec![&webhooks::KEY]
    }

    fn topology(&self) -> Topology {
        let offer = library::offer();
        let offered: Vec<&str> = offer.types().map(|offered| offered.name.as_str()).collect();
        library::topology().with("library.reminders", &["book.lent"]).with("library.webhooks", &offered)
    }

    fn outbox(&self, database: &AttachedDatabase, broker: Arc<dyn Broker>) -> Result<Outbox, Failure> {
        let (outbox, _) =
            library::outbox(&transactor(Arc::new(database.store.clone()), &database.clock)?, broker);
        Ok(outbox.with_on_failed(self.0.outbox.on_failed).with_alerts(self.0.alerts.clone()))
    }
}

/// The operator whom the proxy in front of the library has authenticated.
fn operator(head: &Parts, trace: Trace) -> Result<Operator, Refusal> {
    let name = head.headers.get("x-operator").and_then(|name| name.to_str().ok());
    let name = name.ok_or_else(|| Refusal::of(Code::NOT_AUTHENTICATED))?.to_owned();
    Ok(Operator { name, tenant: TenantId::DEFAULT, sees_all_tenants: true, sees_personal_data: true, trace })
}

async fn serve(address: SocketAddr, common: &Common) -> Result<(), library::Error> {
    let session: Session<Library> = Session::open(common, Reach::Broker).await?;
    let state = OperatorState::new(session.outbox.clone(), operator);
    let Library(config) = session.config;
    let webhook = config.webhook.with_listens(vec![address]);
    let state = match webhooks(&session.outbox, library::offer(), &webhook, &config.database)? {
        Some(webhooks) => state.with_webhooks(webhooks),
        None => state,
    };
    let routes = operator_router(state);
    let listener = TcpListener::bind(address).await?;
    println!("operators' routes are on http://{}/admin/outbox", listener.local_addr()?);
    Ok(axum::serve(listener, Router::new().nest("/admin/outbox", routes)).await?)
}

/// A day of the library, in this file or in a temporary one.
async fn day(database: Option<PathBuf>) -> Result<(), library::Error> {
    let folder = tempfile::tempdir()?;
    let file = database.unwrap_or_else(|| folder.path().join("library.db"));
    let Library(config) = Common::default().load()?;
    match library::run(&file, &config.webhook).await?.len() {
        3 => Ok(()),
        other => Err(format!("three books were lent, but there are {other} reminders").into()),
    }
}

pub(crate) async fn main() -> ExitCode {
    set_names(ProgramNames {
        command: env!("CARGO_PKG_NAME"),
        prefix: "LIBRARY_",
        file_variable: "LIBRARY_SETTINGS",
        file: "library.toml",
    });
    let done = match Cli::parse().command.unwrap_or(Command::Day { database: None }) {
        Command::Day { database } => day(database).await,
        Command::Serve { address, common } => serve(address, &common).await,
        Command::Operators(command) => match handover_cli::run::<Library>(&command).await {
            Ok(exit) => return exit.into(),
            Err(failure) => {
                eprintln!("{}", failure.explain());
                return failure.exit().into();
            }
        },
    };
    done.map_or_else(
        |error| {
            eprintln!("{error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
