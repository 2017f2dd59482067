//! One RabbitMQ node: a process that can be killed, stopped and started again with its data.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::setup::{Ports, command, configure, erl_call, program};
use crate::process::BoxError;
use crate::servers::server_process::{EndWith, ServerProcess};
use crate::servers::{free_port, server_folder};

/// Maximum time until a started node responds: three nodes on a busy machine need many seconds.
pub(super) const START_WITHIN: Duration = Duration::from_secs(120);

/// Maximum time for which a call is retried while `erl_call` cannot connect.
const CALL_WITHIN: Duration = Duration::from_secs(30);

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a private port mapper (epmd), through which nodes and callers find each other.
pub(super) fn start_mapper() -> Result<(ServerProcess, u16), BoxError> {
    let port = free_port()?;
    let command = [
        program("epmd")?.display().to_string(),
        "-port".to_owned(),
        port.to_string(),
        "-address".to_owned(),
        "127.0.0.1".to_owned(),
    ];
    Ok((ServerProcess::start(&command, &server_folder("epmd")?, EndWith::Kill)?, port))
}

#[derive(Debug)]
pub(super) struct Node {
    name: String,
    folder: PathBuf,
    ports: Ports,
    process: Mutex<Option<ServerProcess>>,
    calling: tokio::sync::Mutex<()>,
}

impl Node {
    /// A node that is not started yet. `peers` are the nodes of the cluster to join; empty for the first node.
    pub(super) fn new(name: &str, peers: &[String], mapper: u16, encrypted: bool) -> Result<Node, BoxError> {
        let ports = Ports {
            amqp: free_port()?,
            amqps: if encrypted { Some(free_port()?) } else { None },
            distribution: free_port()?,
            mapper,
        };
        let folder = server_folder("rabbitmq")?;
        configure(&folder, ports, peers)?;
        let name = name.to_owned();
        let process = Mutex::default();
        Ok(Node { name, folder, ports, process, calling: tokio::sync::Mutex::default() })
    }

    /// Starts the process, for the first time or again with its data.
    pub(super) fn launch(&self) -> Result<(), BoxError> {
        let command = command(&self.name, &self.folder, self.ports)?;
        *lock(&self.process) = Some(ServerProcess::start(&command, &self.folder, EndWith::Kill)?);
        Ok(())
    }

    /// Waits until the node responds.
    pub(super) async fn wait_until_ready(&self) -> Result<(), BoxError> {
        let begun = Instant::now();
        loop {
            let error: BoxError = match self.call("rabbit:is_running().").await {
                Ok(response) if response.starts_with("{ok,") && response.contains("true") => return Ok(()),
                Ok(response) => format!("response: {response}").into(),
                Err(error) => error,
            };
            let (runs, log) = match &*lock(&self.process) {
                Some(node) => (node.is_running(), node.log()),
                None => (false, String::new()),
            };
            if !runs || begun.elapsed() > START_WITHIN {
                return Err(format!("RabbitMQ ({}) does not respond: {error}\n{log}", self.name).into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Evaluates `code` until the result is `wanted`.
    pub(super) async fn wait_for(&self, code: &str, wanted: &str) -> Result<(), BoxError> {
        let begun = Instant::now();
        loop {
            let response = self.eval(code).await?;
            if response.trim_end() == format!("{{ok, {wanted}}}") {
                return Ok(());
            }
            if begun.elapsed() > START_WITHIN {
                return Err(format!("{} returns {response} instead of {wanted}", self.name).into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends SIGKILL. The data is kept.
    pub(super) fn kill(&self) -> Result<(), BoxError> {
        lock(&self.process).take().map_or(Ok(()), ServerProcess::kill)
    }

    /// Sends SIGSTOP: the kernel accepts connections, but the node does not respond.
    pub(super) fn pause(&self) -> Result<(), BoxError> {
        lock(&self.process).as_ref().map_or(Ok(()), ServerProcess::pause)
    }

    /// Sends SIGCONT.
    pub(super) fn resume(&self) -> Result<(), BoxError> {
        lock(&self.process).as_ref().map_or(Ok(()), ServerProcess::resume)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn ports(&self) -> Ports {
        self.ports
    }

    /// Evaluates Erlang on the node, like `rabbitmqctl eval`, but without the start of `rabbitmqctl`, which takes
    /// about 1 s.
    pub(super) async fn eval(&self, code: &str) -> Result<String, BoxError> {
        let begun = Instant::now();
        loop {
            let output = self.call(code).await?;
            if output.starts_with("{ok,") {
                return Ok(output);
            }
            if !output.contains("failed to connect") || begun.elapsed() > CALL_WITHIN {
                return Err(output.into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Output of the node, or of `erl_call` if it fails.
    async fn call(&self, code: &str) -> Result<String, BoxError> {
        let program = program("erl_call")?;
        let code = format!("{code}\n");
        // The node accepts one `erl_call` at a time and rejects the next until the session of the previous is removed.
        let _turn = self.calling.lock().await;
        let name = self.name.clone();
        let mapper = self.ports.mapper;
        tokio::task::spawn_blocking(move || erl_call(&program, &name, mapper, &code)).await?
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // End the process first: its shell removes the folder. After a kill there is no shell, so remove the folder
        // here as well.
        drop(lock(&self.process).take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
