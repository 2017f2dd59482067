//! RabbitMQ.

#![allow(clippy::disallowed_methods, reason = "real servers run on real time")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::watched::{EndWith, Watched};
use super::{find, free_port, run, server_folder};
use crate::process::Fault;

/// How long a server may take until it answers.
const START_WITHIN: Duration = Duration::from_secs(45);

/// How long a call is tried while the server does not take it.
const CALL_WITHIN: Duration = Duration::from_secs(5);

/// The only user, with the password of the same name.
const USER: &str = "handover";
/// What nodes know each other by; they listen on 127.0.0.1 alone.
const COOKIE: &str = "handover";
/// Its name among its kind; the port mapper of each server is its own.
const NODE: &str = "handover@localhost";

/// The largest message that a test server takes.
pub const MAX_MESSAGE_BYTES: usize = 1_048_576;

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

#[derive(Debug, Clone, Copy)]
struct Ports {
    amqp: u16,
    amqps: Option<u16>,
    distribution: u16,
    mapper: u16,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn program(name: &str) -> Result<PathBuf, Fault> {
    // Not the wrapper in the path: it changes to another user.
    let folders = ["/usr/lib/rabbitmq/bin", "/usr/lib/erlang/bin"].map(PathBuf::from);
    find(name, &folders).ok_or_else(|| {
        format!("{name} is missing: install RabbitMQ 3.10 or later (Debian: apt-get install rabbitmq-server)")
            .into()
    })
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

/// A vhost of one test.
#[derive(Debug)]
pub struct TestVhost {
    name: String,
    server: Arc<RabbitServer>,
}

impl TestVhost {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL, by the server's own port.
    pub fn url(&self) -> String {
        self.url_by(self.server.port())
    }

    /// Its URL, by the port of a proxy before the server.
    pub fn url_by(&self, port: u16) -> String {
        format!("amqp://{USER}:{USER}@127.0.0.1:{port}/{}", self.name)
    }

    /// Its URL with encryption, where the server offers that.
    pub fn encrypted_url(&self) -> Option<String> {
        let port = self.server.encrypted_port()?;
        Some(format!("amqps://{USER}:{USER}@localhost:{port}/{}", self.name))
    }

    /// The server it is in.
    pub fn server(&self) -> &Arc<RabbitServer> {
        &self.server
    }

    /// A resource of it, as Erlang names it.
    fn resource(&self, kind: &str, name: &str) -> String {
        format!("rabbit_misc:r(<<\"{}\">>, {kind}, <<\"{name}\">>)", self.name)
    }

    /// Deletes a queue with all that is in it, behind everybody's back.
    pub async fn delete_queue(&self, queue: &str) -> Result<(), Fault> {
        let queue = self.resource("queue", queue);
        let code = format!(
            "{{ok, Q}} = rabbit_amqqueue:lookup({queue}), rabbit_amqqueue:delete(Q, false, false, <<\"test\">>)."
        );
        self.server.eval(&code).await.map(drop)
    }

    /// Deletes an exchange with its bindings, behind everybody's back.
    pub async fn delete_exchange(&self, exchange: &str) -> Result<(), Fault> {
        let exchange = self.resource("exchange", exchange);
        self.server
            .eval(&format!("ok = rabbit_exchange:delete({exchange}, false, <<\"test\">>)."))
            .await
            .map(drop)
    }

    /// Takes a binding from a queue, behind everybody's back.
    pub async fn unbind(&self, exchange: &str, queue: &str, key: &str) -> Result<(), Fault> {
        let (exchange, queue) = (self.resource("exchange", exchange), self.resource("queue", queue));
        let code = format!(
            "[B] = [B || B <- rabbit_binding:list_for_source_and_destination({exchange}, {queue}), \
             element(3, B) =:= <<\"{key}\">>], ok = rabbit_binding:remove(B, <<\"test\">>)."
        );
        self.server.eval(&code).await.map(drop)
    }

    /// Closes every connection to it, as an operator does.
    pub async fn close_connections(&self) -> Result<(), Fault> {
        let code = format!(
            "[rabbit_networking:close_connection(P, \"test\") || [{{pid, P}}, {{vhost, <<\"{}\">>}}] <- \
             rabbit_networking:connection_info_all([pid, vhost])].",
            self.name
        );
        self.server.eval(&code).await.map(drop)
    }
}

impl Drop for TestVhost {
    fn drop(&mut self) {
        lock(&self.server.finished).push(std::mem::take(&mut self.name));
    }
}

/// What the server says to this code, or erl_call in its place.
fn erl_call(program: &Path, mapper: u16, code: &str) -> Result<String, Fault> {
    let mut child = Command::new(program)
        .args(["-n", NODE, "-c", COOKIE, "-e"])
        .env("ERL_EPMD_PORT", mapper.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Who cannot connect does not read.
    let _ = child.stdin.take().ok_or("stdin is piped")?.write_all(code.as_bytes());
    let output = child.wait_with_output()?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn configure(folder: &Path, ports: Ports) -> Result<(), Fault> {
    let mut lines = vec![
        format!("listeners.tcp.default = 127.0.0.1:{}", ports.amqp),
        format!("default_user = {USER}"),
        format!("default_pass = {USER}"),
        "loopback_users = none".to_owned(),
        format!("max_message_size = {MAX_MESSAGE_BYTES}"),
        "disk_free_limit.absolute = 50MB".to_owned(),
        "vm_memory_high_watermark.relative = 0.6".to_owned(),
        "log.file.level = warning".to_owned(),
    ];
    if let Some(port) = ports.amqps {
        certify(folder)?;
        lines.push(format!("listeners.ssl.default = 127.0.0.1:{port}"));
        for (key, file) in [("cacertfile", "ca.pem"), ("certfile", "server.pem"), ("keyfile", "server.key")] {
            lines.push(format!("ssl_options.{key} = {}", folder.join(file).display()));
        }
        lines.push("ssl_options.verify = verify_none".to_owned());
    }
    std::fs::write(folder.join("rabbitmq.conf"), lines.join("\n") + "\n")?;
    std::fs::write(folder.join("plugins"), "[].\n")?;
    std::fs::create_dir(folder.join("logs"))?;
    Ok(())
}

/// An authority, and a certificate of it for `localhost`.
fn certify(folder: &Path) -> Result<(), Fault> {
    let openssl =
        find("openssl", &[]).ok_or("openssl is missing: install it (Debian: apt-get install openssl)")?;
    let openssl =
        |arguments: &str| run(Command::new(&openssl).args(arguments.split_whitespace()).current_dir(folder));
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    openssl(&format!(
        "req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=test-authority -addext basicConstraints=critical,CA:TRUE"
    ))?;
    openssl(&format!(
        "req -x509 {key} -keyout server.key -out server.pem -subj /CN=localhost -CA ca.pem -CAkey ca.key -addext \
         subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE"
    ))
}

fn command(folder: &Path, ports: Ports) -> Result<Vec<String>, Fault> {
    let file = |name: &str| folder.join(name).display().to_string();
    let variables = [
        ("HOME", file("")),
        ("ERL_EPMD_PORT", ports.mapper.to_string()),
        ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        ("RABBITMQ_NODENAME", NODE.to_owned()),
        ("RABBITMQ_DIST_PORT", ports.distribution.to_string()),
        ("RABBITMQ_MNESIA_BASE", file("mnesia")),
        ("RABBITMQ_LOG_BASE", file("logs")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", file("plugins")),
        ("RABBITMQ_CONFIG_FILE", file("rabbitmq")),
        ("RABBITMQ_CONF_ENV_FILE", file("none")),
        ("RABBITMQ_PID_FILE", file("pid")),
        // The script then becomes the server, whose process id we know.
        ("RUNNING_UNDER_SYSTEMD", "true".to_owned()),
        // Idle schedulers that spin take the processor from the tests.
        (
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            format!(
                "-setcookie {COOKIE} +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface \
                 {{127,0,0,1}}"
            ),
        ),
    ];
    let mut command = vec!["env".to_owned()];
    command.extend(variables.map(|(name, value)| format!("{name}={value}")));
    command.push(program("rabbitmq-server")?.display().to_string());
    Ok(command)
}
