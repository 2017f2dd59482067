//! What a server is started with.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::{find, run};
use crate::process::Fault;

/// The only user, with the password of the same name.
pub(super) const USER: &str = "handover";
/// What nodes know each other by; they listen on 127.0.0.1 alone.
const COOKIE: &str = "handover";
/// Its name among its kind; the port mapper of each server is its own.
const NODE: &str = "handover@localhost";

/// The largest message that a test server takes.
pub const MAX_MESSAGE_BYTES: usize = 1_048_576;

/// Where a server listens, on 127.0.0.1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) amqp: u16,
    pub(super) amqps: Option<u16>,
    pub(super) distribution: u16,
    pub(super) mapper: u16,
}

pub(super) fn program(name: &str) -> Result<PathBuf, Fault> {
    // Not the wrapper in the path: it changes to another user.
    let folders = ["/usr/lib/rabbitmq/bin", "/usr/lib/erlang/bin"].map(PathBuf::from);
    find(name, &folders).ok_or_else(|| {
        format!("{name} is missing: install RabbitMQ 3.10 or later (Debian: apt-get install rabbitmq-server)")
            .into()
    })
}

/// What the server says to this code, or erl_call in its place.
pub(super) fn erl_call(program: &Path, mapper: u16, code: &str) -> Result<String, Fault> {
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

pub(super) fn configure(folder: &Path, ports: Ports) -> Result<(), Fault> {
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

pub(super) fn command(folder: &Path, ports: Ports) -> Result<Vec<String>, Fault> {
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
