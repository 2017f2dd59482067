//! RabbitMQ servers.

#![allow(clippy::disallowed_methods, reason = "real servers run in real time")]

mod cluster;
mod node;
mod setup;
mod vhost;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::server_process::ServerProcess;
use crate::process::BoxError;
use node::{Node, START_WITHIN, lock, start_mapper};
use setup::USER;

pub use cluster::RabbitCluster;
pub use setup::MAX_MESSAGE_BYTES;
pub use vhost::TestVhost;

/// Whether a server offers TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    None,
    /// With a generated certificate. RabbitMQ and Redis also accept connections without TLS, database servers do not.
    Offered,
}

/// A private RabbitMQ server. The server ends when this value is dropped.
#[derive(Debug)]
pub struct RabbitServer {
    node: Node,
    /// Number of vhosts created.
    created: Mutex<u32>,
    /// Port of the management API, once it is enabled.
    management: tokio::sync::OnceCell<u16>,
    /// Vhosts of finished tests. They are deleted when the next vhost is created.
    finished: Mutex<Vec<String>>,
    /// The port mapper is declared last, so that it ends after the node.
    _mapper: ServerProcess,
}

impl RabbitServer {
    /// Creates and starts a server, and waits until it responds.
    pub async fn start(encryption: Encryption) -> Result<Arc<RabbitServer>, BoxError> {
        let (mapper, port) = start_mapper()?;
        let node = Node::new("handover@localhost", &[], port, encryption == Encryption::Offered)?;
        let server = RabbitServer {
            node,
            created: Mutex::default(),
            management: tokio::sync::OnceCell::new(),
            finished: Mutex::default(),
            _mapper: mapper,
        };
        server.restart().await?;
        Ok(Arc::new(server))
    }

    /// Starts the server again on the same ports with its data, and waits until it responds.
    pub async fn restart(&self) -> Result<(), BoxError> {
        self.node.launch()?;
        self.node.wait_until_ready().await
    }

    /// Sends SIGKILL. The data is kept for [`restart`](RabbitServer::restart).
    pub fn kill(&self) -> Result<(), BoxError> {
        self.node.kill()
    }

    /// Sends SIGSTOP: the kernel accepts connections, but the server does not respond.
    pub fn pause(&self) -> Result<(), BoxError> {
        self.node.pause()
    }

    /// Sends SIGCONT.
    pub fn resume(&self) -> Result<(), BoxError> {
        self.node.resume()
    }

    /// Port for `amqp` on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.node.ports().amqp
    }

    /// Port for `amqps`.
    pub fn encrypted_port(&self) -> Option<u16> {
        self.node.ports().amqps
    }

    /// Certificate authority of the server's certificate for `localhost`, in PEM format.
    pub fn authorities(&self) -> Result<String, BoxError> {
        Ok(std::fs::read_to_string(self.node.folder().join("ca.pem"))?)
    }

    /// Folder with all files of the server.
    pub fn folder(&self) -> &Path {
        self.node.folder()
    }

    /// Evaluates Erlang on the server, like `rabbitmqctl eval`, but without the start of `rabbitmqctl`, which takes
    /// about 1 s.
    pub async fn eval(&self, code: &str) -> Result<String, BoxError> {
        self.node.eval(code).await
    }

    /// Enables the management plugin on the running server, which takes about 1 s, and returns the URL of its API.
    pub async fn management_url(&self) -> Result<String, BoxError> {
        let port = self.management.get_or_try_init(|| async {
            let port = super::free_port()?;
            self.eval(&format!(
                "application:set_env(rabbitmq_management, tcp_config, [{{port, {port}}}, {{ip, \"127.0.0.1\"}}], \
                 [{{persistent, true}}]), File = os:getenv(\"RABBITMQ_ENABLED_PLUGINS_FILE\"), \
                 ok = file:write_file(File, \"[rabbitmq_management].\\n\"), {{ok, _, _}} = rabbit_plugins:ensure(File)."
            ))
            .await?;
            Ok::<u16, BoxError>(port)
        });
        Ok(format!("http://127.0.0.1:{}", port.await?))
    }

    /// Writes the names of all quorum queues to disk. RabbitMQ 3.10 does so half a second after a declaration; if the
    /// server is killed earlier, it loses the queue.
    pub async fn save_queues(&self) -> Result<(), BoxError> {
        self.eval("[ok = dets:sync(Table) || Table <- dets:all()].").await.map(drop)
    }

    /// Raises or clears the memory alarm. While the alarm is raised, RabbitMQ blocks connections that publish.
    pub async fn set_memory_alarm(&self, alarm: bool) -> Result<(), BoxError> {
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
                return Err(format!("the alarms are {alarms}, expected {wanted}").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Creates an empty vhost. After its test, it is deleted when the next vhost is created.
    pub async fn vhost(self: &Arc<Self>) -> Result<TestVhost, BoxError> {
        let finished = std::mem::take(&mut *lock(&self.finished));
        let number = {
            let mut created = lock(&self.created);
            *created += 1;
            *created
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
