//! Redis.

#![allow(clippy::disallowed_methods, reason = "real servers run on real time")]

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use super::watched::{EndWith, Watched};
use super::{certify, find, free_port, server_folder};
use crate::process::Fault;
use crate::servers::rabbitmq::Encryption;

/// How long a start may take.
const START_WITHIN: Duration = Duration::from_secs(30);
/// Everybody needs it.
pub const PASSWORD: &str = "the-password-of-redis";

fn program() -> Result<PathBuf, Fault> {
    let folders = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    find("redis-server", &folders)
        .ok_or_else(|| "redis-server is missing: install it (Debian: apt-get install redis-server)".into())
}

fn command(folder: &Path, port: u16, encrypted: Option<u16>) -> Result<Vec<String>, Fault> {
    let mut command = vec![program()?.display().to_string()];
    let port = port.to_string();
    let folder_text = folder.display().to_string();
    command.extend(
        ["--port", &port, "--bind", "127.0.0.1", "--dir", &folder_text, "--requirepass", PASSWORD]
            .map(str::to_owned),
    );
    // Nothing is kept: what a limiter forgets is part of what is tested.
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

/// A server of a test's own. Dropping it ends it.
#[derive(Debug)]
pub struct RedisServer {
    folder: PathBuf,
    port: u16,
    encrypted: Option<u16>,
    process: Mutex<Option<Watched>>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    pub async fn start(encryption: Encryption) -> Result<RedisServer, Fault> {
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

    /// Starts it again on the same ports, with nothing in it, and waits until it answers.
    pub async fn restart(&self) -> Result<(), Fault> {
        let command = command(&self.folder, self.port, self.encrypted)?;
        *self.process.lock().unwrap() = Some(Watched::start(&command, &self.folder, EndWith::Kill)?);
        let begun = Instant::now();
        loop {
            let error = match self.connect().await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if begun.elapsed() > START_WITHIN {
                let log = self.process.lock().unwrap().as_ref().map(Watched::log).unwrap_or_default();
                return Err(format!("Redis does not answer: {error}\n{log}").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// `kill -9`.
    pub fn kill(&self) -> Result<(), Fault> {
        self.process.lock().unwrap().take().map_or(Ok(()), Watched::kill)
    }

    /// SIGSTOP: it takes connections and answers nothing.
    pub fn pause(&self) -> Result<(), Fault> {
        self.process.lock().unwrap().as_ref().map_or(Ok(()), Watched::pause)
    }

    /// SIGCONT.
    pub fn go_on(&self) -> Result<(), Fault> {
        self.process.lock().unwrap().as_ref().map_or(Ok(()), Watched::go_on)
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// With its password.
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// The same through this port of 127.0.0.1.
    pub fn url_at(&self, port: u16) -> String {
        format!("redis://:{PASSWORD}@127.0.0.1:{port}/0")
    }

    /// The URL of encrypted connections, and who signed its certificate.
    pub fn encrypted_url(&self) -> Result<(String, String), Fault> {
        let port = self.encrypted.ok_or("it was started without encryption")?;
        let authorities = std::fs::read_to_string(self.folder.join("ca.pem"))?;
        Ok((format!("rediss://:{PASSWORD}@localhost:{port}/0"), authorities))
    }

    /// A connection behind the application's back.
    pub async fn connect(&self) -> Result<MultiplexedConnection, Fault> {
        let patient = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(START_WITHIN))
            .set_response_timeout(Some(START_WITHIN));
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&patient).await?;
        redis::cmd("PING").exec_async(&mut connection).await?;
        Ok(connection)
    }

    /// Has it do something: `FLUSHALL`, `CLIENT PAUSE 1000 ALL`.
    pub async fn command(&self, words: &str) -> Result<(), Fault> {
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
        // First the process, whose shell removes the folder too; but one that was killed has no shell any more.
        drop(self.process.lock().unwrap().take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
