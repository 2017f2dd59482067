//! Configuration and command line of a RabbitMQ node.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::{PASSWORD, certify, find};
use crate::process::BoxError;

/// The only RabbitMQ user of the test servers.
pub(super) const USER: &str = "handover";
/// Erlang cookie of the nodes, which listen on 127.0.0.1 only.
const COOKIE: &str = "handover";

/// Maximum message size of the test servers.
pub const MAX_MESSAGE_BYTES: usize = 1_048_576;

/// Ports of a node on 127.0.0.1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) amqp: u16,
    pub(super) amqps: Option<u16>,
    pub(super) distribution: u16,
    pub(super) mapper: u16,
}

pub(super) fn program(name: &str) -> Result<PathBuf, BoxError> {
    // `rabbitmq-server` in PATH is a wrapper that changes to another user, so these folders are searched first.
    let folders = ["/usr/lib/rabbitmq/bin", "/usr/lib/erlang/bin"].map(PathBuf::from);
    find(name, &folders).ok_or_else(|| {
        format!("{name} is missing: install RabbitMQ 3.10 or later (Debian: apt-get install rabbitmq-server)")
            .into()
    })
}

/// Runs `erl_call` and returns the output of the node, or of `erl_call` if it fails.
pub(super) fn erl_call(program: &Path, node: &str, mapper: u16, code: &str) -> Result<String, BoxError> {
    let mut child = Command::new(program)
        .args(["-n", node, "-c", COOKIE, "-e"])
        .env("ERL_EPMD_PORT", mapper.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // An error of the write is ignored: an `erl_call` that cannot connect does not read its input, but prints an error.
    let _ = child.stdin.take().ok_or("stdin is piped")?.write_all(code.as_bytes());
    let output = child.wait_with_output()?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Writes the configuration of a node. `peers` are the nodes of the cluster to join; empty for a single node and for
/// the first node.
pub(super) fn configure(folder: &Path, ports: Ports, peers: &[String]) -> Result<(), BoxError> {
    let mut lines = vec![
        format!("listeners.tcp.default = 127.0.0.1:{}", ports.amqp),
        format!("default_user = {USER}"),
        format!("default_pass = {PASSWORD}"),
        "loopback_users = none".to_owned(),
        format!("max_message_size = {MAX_MESSAGE_BYTES}"),
        "disk_free_limit.absolute = 50MB".to_owned(),
        "vm_memory_high_watermark.relative = 0.6".to_owned(),
        "log.file.level = warning".to_owned(),
    ];
    if !peers.is_empty() {
        for line in [
            "peer_discovery_backend = classic_config",
            // Joining nodes retry often and for a long time: the first node needs some time to start, and only the
            // node that holds a lock queries it.
            "discovery_retry_interval = 100",
            "discovery_retry_limit = 450",
        ] {
            lines.push(format!("cluster_formation.{line}"));
        }
        let named = peers.iter().enumerate();
        lines.extend(
            named.map(|(n, peer)| format!("cluster_formation.classic_config.nodes.{} = {peer}", n + 1)),
        );
    }
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

pub(super) fn command(name: &str, folder: &Path, ports: Ports) -> Result<Vec<String>, BoxError> {
    let file = |name: &str| folder.join(name).display().to_string();
    let variables = [
        ("HOME", file("")),
        ("ERL_EPMD_PORT", ports.mapper.to_string()),
        ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        ("RABBITMQ_NODENAME", name.to_owned()),
        ("RABBITMQ_DIST_PORT", ports.distribution.to_string()),
        ("RABBITMQ_MNESIA_BASE", file("mnesia")),
        ("RABBITMQ_LOG_BASE", file("logs")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", file("plugins")),
        ("RABBITMQ_CONFIG_FILE", file("rabbitmq")),
        ("RABBITMQ_CONF_ENV_FILE", file("none")),
        ("RABBITMQ_PID_FILE", file("pid")),
        // With this variable the script execs the server, so that its process id is that of the server.
        ("RUNNING_UNDER_SYSTEMD", "true".to_owned()),
        // `+sbwt none`: idle schedulers do not spin, which would take CPU time from the tests.
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
