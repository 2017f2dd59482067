//! RabbitMQ.

#![allow(clippy::disallowed_methods, reason = "real servers run on real time")]

mod cluster;
mod node;
mod setup;
mod vhost;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::watched::Watched;
use crate::process::Fault;
use node::{Node, START_WITHIN, lock, start_mapper};
use setup::USER;

pub use cluster::RabbitCluster;
pub use setup::MAX_MESSAGE_BYTES;
pub use vhost::TestVhost;

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
    node: Node,
    /// How many vhosts were made.
    made: Mutex<u32>,
    /// Vhosts that nobody uses any more; the next that is made deletes them.
    finished: Mutex<Vec<String>>,
    /// Ends after the node.
    _mapper: Watched,
}

impl RabbitServer {
    /// Makes and starts a server, and waits until it answers.
    pub async fn start(encryption: Encryption) -> Result<Arc<RabbitServer>, Fault> {
        let (mapper, port) = start_mapper()?;
        let node = Node::new("handover@localhost", &[], port, encryption == Encryption::Offered)?;
        let server =
            RabbitServer { node, made: Mutex::default(), finished: Mutex::default(), _mapper: mapper };
        server.restart().await?;
        Ok(Arc::new(server))
    }

    /// Starts it again on the same ports with what it has kept, and waits until it answers.
    pub async fn restart(&self) -> Result<(), Fault> {
        self.node.launch()?;
        self.node.wait_until_it_answers().await
    }

    /// `kill -9`; what it has kept stays for [`restart`](RabbitServer::restart).
    pub fn kill(&self) -> Result<(), Fault> {
        self.node.kill()
    }

    /// SIGSTOP: it takes connections and answers nothing.
    pub fn pause(&self) -> Result<(), Fault> {
        self.node.pause()
    }

    /// SIGCONT.
    pub fn go_on(&self) -> Result<(), Fault> {
        self.node.go_on()
    }

    /// Where it listens for `amqp`, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.node.ports().amqp
    }

    /// Where it listens for `amqps`.
    pub fn encrypted_port(&self) -> Option<u16> {
        self.node.ports().amqps
    }

    /// Who signed its certificate, which is for `localhost`.
    pub fn authorities(&self) -> Result<String, Fault> {
        Ok(std::fs::read_to_string(self.node.folder().join("ca.pem"))?)
    }

    /// Where it keeps everything.
    pub fn folder(&self) -> &Path {
        self.node.folder()
    }

    /// Evaluates Erlang on the server: what `rabbitmqctl eval` does, without a second of start.
    pub async fn eval(&self, code: &str) -> Result<String, Fault> {
        self.node.eval(code).await
    }

    /// Writes the names of all quorum queues to disk, which RabbitMQ 3.10 does half a second after it declared one: killed
    /// before that, it forgets the queue.
    pub async fn save_queues(&self) -> Result<(), Fault> {
        self.eval("[ok = dets:sync(Table) || Table <- dets:all()].").await.map(drop)
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
