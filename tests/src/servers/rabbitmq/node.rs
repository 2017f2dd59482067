//! One node: a process that can be killed, stopped and started again on what it has kept.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::setup::{Ports, command, configure, erl_call, program};
use crate::process::Fault;
use crate::servers::watched::{EndWith, Watched};
use crate::servers::{free_port, server_folder};

/// How long a node may take until it answers: many seconds where three start beside other work.
pub(super) const START_WITHIN: Duration = Duration::from_secs(120);

/// How long a call is tried while the node does not take it.
const CALL_WITHIN: Duration = Duration::from_secs(30);

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port mapper of our own, by which nodes and callers find each other.
pub(super) fn start_mapper() -> Result<(Watched, u16), Fault> {
    let port = free_port()?;
    let command = [
        program("epmd")?.display().to_string(),
        "-port".to_owned(),
        port.to_string(),
        "-address".to_owned(),
        "127.0.0.1".to_owned(),
    ];
    Ok((Watched::start(&command, &server_folder("epmd")?, EndWith::Kill)?, port))
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    name: String,
    folder: PathBuf,
    ports: Ports,
    process: Mutex<Option<Watched>>,
    calling: tokio::sync::Mutex<()>,
}

impl Node {
    /// A node that is not started yet; `peers` are the nodes of the cluster that it joins, none for the first.
    pub(super) fn new(name: &str, peers: &[String], mapper: u16, encrypted: bool) -> Result<Node, Fault> {
        let ports = Ports {
            amqp: free_port()?,
            amqps: if encrypted { Some(free_port()?) } else { None },
            distribution: free_port()?,
            mapper,
        };
        let folder = server_folder("rabbitmq")?;
        configure(&folder, ports, peers)?;
        let (name, process) = (name.to_owned(), Mutex::default());
        Ok(Node { name, folder, ports, process, calling: tokio::sync::Mutex::default() })
    }

    /// Starts its process, for the first time or again with what it has kept.
    pub(super) fn launch(&self) -> Result<(), Fault> {
        let command = command(&self.name, &self.folder, self.ports)?;
        *lock(&self.process) = Some(Watched::start(&command, &self.folder, EndWith::Kill)?);
        Ok(())
    }

    /// Waits until it answers.
    pub(super) async fn wait_until_it_answers(&self) -> Result<(), Fault> {
        let begun = Instant::now();
        loop {
            let error: Fault = match self.call("rabbit:is_running().").await {
                Ok(answer) if answer.starts_with("{ok,") && answer.contains("true") => return Ok(()),
                Ok(answer) => format!("it says {answer}").into(),
                Err(error) => error,
            };
            let (runs, log) = match &*lock(&self.process) {
                Some(node) => (node.is_running(), node.log()),
                None => (false, String::new()),
            };
            if !runs || begun.elapsed() > START_WITHIN {
                return Err(format!("RabbitMQ ({}) does not answer: {error}\n{log}", self.name).into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Asks until it answers this.
    pub(super) async fn wait_for(&self, code: &str, wanted: &str) -> Result<(), Fault> {
        let begun = Instant::now();
        loop {
            let answer = self.eval(code).await?;
            if answer.trim_end() == format!("{{ok, {wanted}}}") {
                return Ok(());
            }
            if begun.elapsed() > START_WITHIN {
                return Err(format!("{} says {answer} and not {wanted}", self.name).into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// `kill -9`; what it has kept stays.
    pub(super) fn kill(&self) -> Result<(), Fault> {
        lock(&self.process).take().map_or(Ok(()), Watched::kill)
    }

    /// SIGSTOP: it takes connections and answers nothing.
    pub(super) fn pause(&self) -> Result<(), Fault> {
        lock(&self.process).as_ref().map_or(Ok(()), Watched::pause)
    }

    /// SIGCONT.
    pub(super) fn go_on(&self) -> Result<(), Fault> {
        lock(&self.process).as_ref().map_or(Ok(()), Watched::go_on)
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

    /// Evaluates Erlang on the node: what `rabbitmqctl eval` does, without a second of start.
    pub(super) async fn eval(&self, code: &str) -> Result<String, Fault> {
        let begun = Instant::now();
        loop {
            let said = self.call(code).await?;
            if said.starts_with("{ok,") {
                return Ok(said);
            }
            if !said.contains("failed to connect") || begun.elapsed() > CALL_WITHIN {
                return Err(said.into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the node says to this code, or erl_call in its place.
    async fn call(&self, code: &str) -> Result<String, Fault> {
        let (program, code) = (program("erl_call")?, format!("{code}\n"));
        // The node takes one such call at a time: the next one is turned away while it forgets the last.
        let _turn = self.calling.lock().await;
        let (name, mapper) = (self.name.clone(), self.ports.mapper);
        tokio::task::spawn_blocking(move || erl_call(&program, &name, mapper, &code)).await?
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // First the process, whose shell removes the folder too; but one that was killed has no shell any more.
        drop(lock(&self.process).take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
