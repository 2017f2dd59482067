//! RabbitMQ.

#![allow(clippy::disallowed_methods, reason = "real servers run on real time")]

mod setup;
mod vhost;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::watched::{EndWith, Watched};
use super::{free_port, server_folder};
use crate::process::Fault;
use setup::{Ports, USER, command, configure, erl_call, program};

pub use setup::MAX_MESSAGE_BYTES;
pub use vhost::TestVhost;

/// How long a server may take until it answers.
const START_WITHIN: Duration = Duration::from_secs(45);

/// How long a call is tried while the server does not take it.
const CALL_WITHIN: Duration = Duration::from_secs(5);

/// Whether a server listens for `amqps` too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// `amqp` only.
    None,
    /// With certificates made for it, see [`RabbitServer::authorities`].
    Offered,
}

/// A server of a test's own. Dropping it ends it.
#[derive(Debug)]
pub struct RabbitServer {
    folder: PathBuf,
    ports: Ports,
    node: Mutex<Option<Watched>>,
    calling: tokio::sync::Mutex<()>,
    /// How many vhosts were made.
    made: Mutex<u32>,
    /// Vhosts that nobody uses any more; the next that is made deletes them.
    finished: Mutex<Vec<String>>,
    /// Ends after the node.
    _mapper: Watched,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RabbitServer {
    /// Makes and starts a server, and waits until it answers.
    pub async fn start(encryption: Encryption) -> Result<Arc<RabbitServer>, Fault> {
        let mapper_folder = server_folder("epmd")?;
        let ports = Ports {
            amqp: free_port()?,
            amqps: match encryption {
                Encryption::None => None,
                Encryption::Offered => Some(free_port()?),
            },
            distribution: free_port()?,
            mapper: free_port()?,
        };
        let mapper = [
            program("epmd")?.display().to_string(),
            "-port".to_owned(),
            ports.mapper.to_string(),
            "-address".to_owned(),
            "127.0.0.1".to_owned(),
        ];
        let mapper = Watched::start(&mapper, &mapper_folder, EndWith::Kill)?;
        let folder = server_folder("rabbitmq")?;
        configure(&folder, ports)?;
        let server = RabbitServer {
            folder,
            ports,
            node: Mutex::default(),
            calling: tokio::sync::Mutex::default(),
            made: Mutex::default(),
            finished: Mutex::default(),
            _mapper: mapper,
        };
        server.restart().await?;
        Ok(Arc::new(server))
    }

    /// Starts it again on the same ports with what it has kept, and waits until it answers.
    pub async fn restart(&self) -> Result<(), Fault> {
        *lock(&self.node) =
            Some(Watched::start(&command(&self.folder, self.ports)?, &self.folder, EndWith::Kill)?);
        let begun = Instant::now();
        loop {
            let error = match self.eval("rabbit:is_running().").await {
                Ok(answer) if answer.contains("true") => return Ok(()),
                Ok(answer) => format!("it says {answer}").into(),
                Err(error) => error,
            };
            let (runs, log) = match &*lock(&self.node) {
                Some(node) => (node.is_running(), node.log()),
                None => (false, String::new()),
            };
            if !runs || begun.elapsed() > START_WITHIN {
                return Err(format!("RabbitMQ does not answer: {error}\n{log}").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// `kill -9`; what it has kept stays for [`restart`](RabbitServer::restart).
    pub fn kill(&self) -> Result<(), Fault> {
        lock(&self.node).take().map_or(Ok(()), Watched::kill)
    }

    /// SIGSTOP: it takes connections and answers nothing.
    pub fn pause(&self) -> Result<(), Fault> {
        lock(&self.node).as_ref().map_or(Ok(()), Watched::pause)
    }

    /// SIGCONT.
    pub fn go_on(&self) -> Result<(), Fault> {
        lock(&self.node).as_ref().map_or(Ok(()), Watched::go_on)
    }

    /// Where it listens for `amqp`, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.ports.amqp
    }

    /// Where it listens for `amqps`.
    pub fn encrypted_port(&self) -> Option<u16> {
        self.ports.amqps
    }

    /// Who signed its certificate, which is for `localhost`.
    pub fn authorities(&self) -> Result<String, Fault> {
        Ok(std::fs::read_to_string(self.folder.join("ca.pem"))?)
    }

    /// Evaluates Erlang on the server: what `rabbitmqctl eval` does, without a second of start.
    pub async fn eval(&self, code: &str) -> Result<String, Fault> {
        let (program, mapper, code) = (program("erl_call")?, self.ports.mapper, format!("{code}\n"));
        let begun = Instant::now();
        loop {
            let said = {
                // The server takes one such call at a time: the next one is turned away while it forgets the last.
                let _turn = self.calling.lock().await;
                let (program, code) = (program.clone(), code.clone());
                tokio::task::spawn_blocking(move || erl_call(&program, mapper, &code)).await??
            };
            if said.starts_with("{ok,") {
                return Ok(said);
            }
            if !said.contains("failed to connect") || begun.elapsed() > CALL_WITHIN {
                return Err(said.into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Lets it run out of memory, or not any more: connections that publish are blocked.
    pub async fn set_memory_alarm(&self, alarm: bool) -> Result<(), Fault> {
        let share = if alarm { "0.000001" } else { "0.6" };
        self.eval(&format!("vm_memory_monitor:set_vm_memory_high_watermark({share}).")).await?;
        let wanted = if alarm { "memory" } else { "[]" };
        let begun = Instant::now();
        loop {
            let alarms = self.eval("rabbit_alarm:get_alarms().").await?;
            if alarms.contains(wanted) {
                return Ok(());
            }
            if begun.elapsed() > START_WITHIN {
                return Err(format!("the alarms are {alarms}").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// An empty vhost that goes when it is dropped.
    pub async fn vhost(self: &Arc<Self>) -> Result<TestVhost, Fault> {
        let finished = std::mem::take(&mut *lock(&self.finished));
        let number = {
            let mut made = lock(&self.made);
            *made += 1;
            *made
        };
        let name = format!("test_{number}");
        let mut code: String = finished
            .iter()
            .map(|name| format!("rabbit_vhost:delete(<<\"{name}\">>, <<\"test\">>), "))
            .collect();
        code += &format!(
            "ok = rabbit_vhost:add(<<\"{name}\">>, <<\"test\">>), rabbit_auth_backend_internal:set_permissions(\
             <<\"{USER}\">>, <<\"{name}\">>, <<\".*\">>, <<\".*\">>, <<\".*\">>, <<\"test\">>)."
        );
        self.eval(&code).await?;
        Ok(TestVhost { name, server: Arc::clone(self) })
    }
}
