//! Redis servers.

#![allow(clippy::disallowed_methods, reason = "real servers run in real time")]

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use super::server_process::{EndWith, ServerProcess};
use super::{certify, find, free_port, server_folder};
use crate::process::BoxError;
use crate::servers::rabbitmq::Encryption;

/// Maximum time until a started server responds.
const START_WITHIN: Duration = Duration::from_secs(30);
/// Password of the server.
pub const PASSWORD: &str = "the-password-of-redis";

fn program() -> Result<PathBuf, BoxError> {
    let folders = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    find("redis-server", &folders)
        .ok_or_else(|| "redis-server is missing: install it (Debian: apt-get install redis-server)".into())
}

fn command(folder: &Path, port: u16, encrypted: Option<u16>) -> Result<Vec<String>, BoxError> {
    let mut command = vec![program()?.display().to_string()];
    let port = port.to_string();
    let folder_text = folder.display().to_string();
    command.extend(
        ["--port", &port, "--bind", "127.0.0.1", "--dir", &folder_text, "--requirepass", PASSWORD]
            .map(str::to_owned),
    );
    // No persistence, because tests cover the loss of the limiter's state.
    command.extend(["--save", "", "--appendonly", "no", "--enable-debug-command", "yes"].map(str::to_owned));
    if let Some(encrypted) = encrypted {
        command.extend(["--tls-port".to_owned(), encrypted.to_string()]);
        for (option, file) in [("ca-cert", "ca.pem"), ("cert", "server.pem"), ("key", "server.key")] {
            command.extend([format!("--tls-{option}-file"), folder.join(file).display().to_string()]);
        }
        command.extend(["--tls-auth-clients", "no"].map(str::to_owned));
    }
    Ok(command)
}

/// A private Redis server. The server ends when this value is dropped.
#[derive(Debug)]
pub struct RedisServer {
    folder: PathBuf,
    port: u16,
    encrypted: Option<u16>,
    process: Mutex<Option<ServerProcess>>,
}

impl RedisServer {
    /// Starts a server and waits until it responds.
    pub async fn start(encryption: Encryption) -> Result<RedisServer, BoxError> {
        let folder = server_folder("redis")?;
        let encrypted = match encryption {
            Encryption::None => None,
            Encryption::Offered => {
                certify(&folder)?;
                Some(free_port()?)
            }
        };
        let server = RedisServer { folder, port: free_port()?, encrypted, process: Mutex::default() };
        server.restart().await?;
        Ok(server)
    }

    /// Starts the server again on the same ports, without data, and waits until it responds.
    pub async fn restart(&self) -> Result<(), BoxError> {
        let command = command(&self.folder, self.port, self.encrypted)?;
        *self.process.lock().unwrap() = Some(ServerProcess::start(&command, &self.folder, EndWith::Kill)?);
        let begun = Instant::now();
        loop {
            let error = match self.connect().await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if begun.elapsed() > START_WITHIN {
                let log = self.process.lock().unwrap().as_ref().map(ServerProcess::log).unwrap_or_default();
                return Err(format!("Redis does not respond: {error}\n{log}").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends SIGKILL.
    pub fn kill(&self) -> Result<(), BoxError> {
        self.process.lock().unwrap().take().map_or(Ok(()), ServerProcess::kill)
    }

    /// Sends SIGSTOP: the kernel accepts connections, but the server does not respond.
    pub fn pause(&self) -> Result<(), BoxError> {
        self.process.lock().unwrap().as_ref().map_or(Ok(()), ServerProcess::pause)
    }

    /// Sends SIGCONT.
    pub fn resume(&self) -> Result<(), BoxError> {
        self.process.lock().unwrap().as_ref().map_or(Ok(()), ServerProcess::resume)
    }

    /// Port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// URL with the password.
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// URL through the given port of 127.0.0.1, for example that of a proxy.
    pub fn url_at(&self, port: u16) -> String {
        format!("redis://:{PASSWORD}@127.0.0.1:{port}/0")
    }

    /// URL of TLS connections, and the certificate authority in PEM format.
    pub fn encrypted_url(&self) -> Result<(String, String), BoxError> {
        let port = self.encrypted.ok_or("the server was started without TLS")?;
        let authorities = std::fs::read_to_string(self.folder.join("ca.pem"))?;
        Ok((format!("rediss://:{PASSWORD}@localhost:{port}/0"), authorities))
    }

    /// Opens a connection that does not belong to the application.
    pub async fn connect(&self) -> Result<MultiplexedConnection, BoxError> {
        let patient = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(START_WITHIN))
            .set_response_timeout(Some(START_WITHIN));
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&patient).await?;
        redis::cmd("PING").exec_async(&mut connection).await?;
        Ok(connection)
    }

    /// Sends a command, such as `FLUSHALL` or `CLIENT PAUSE 1000 ALL`.
    pub async fn command(&self, words: &str) -> Result<(), BoxError> {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().ok_or("no command")?);
        for word in words {
            command.arg(word);
        }
        Ok(command.exec_async(&mut self.connect().await?).await?)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // End the process first: its shell removes the folder. After a kill there is no shell, so remove the folder
        // here as well.
        drop(self.process.lock().unwrap().take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
