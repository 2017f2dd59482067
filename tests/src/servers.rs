//! Private servers for tests: on free ports of 127.0.0.1, each in its own folder, which is deleted at the end.
//!
//! The tests of a binary share one server of each kind, with a database or vhost per test; tests that kill servers
//! start their own. A server ends with the process that started it, even if that process is killed: see
//! [`server_process`].
//!
//! If a server is not installed, the test is not skipped: it fails with an error that names the package.

pub mod database;
pub mod mariadb;
pub mod postgres;
pub mod proxy;
pub mod rabbitmq;
mod recycling;
pub mod redis;
pub mod server_process;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::BoxError;

/// Whether acknowledged writes survive a crash of the machine. They survive a crash of the server process in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Acknowledged writes survive a crash of the machine, and caches and logs have a size, as in production.
    Full,
    /// Writes are not synchronized to disk (no fsync): for tests in which the machine does not crash.
    None,
}

/// Ports below the default ephemeral range, so that the kernel assigns none of them to other sockets.
const PORTS: std::ops::Range<u32> = 20_000..32_000;

/// Returns a free port that no other call in this process returns.
pub fn free_port() -> Result<u16, BoxError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Each process starts its search at a different port, so that test binaries rarely choose the same port.
    let first = std::process::id().wrapping_mul(97);
    for _ in PORTS {
        let step = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % (PORTS.end - PORTS.start);
        let port = u16::try_from(PORTS.start + step)?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free".into())
}

/// Password of the database and RabbitMQ servers. It is a canary: the program must not print it (see `canary`).
pub const PASSWORD: &str = "a-canary-in-place-of-a-password";

/// Creates a folder for a server that may run as another user. Its name is short enough for Unix sockets in it.
pub fn server_folder(name: &str) -> Result<PathBuf, BoxError> {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::Builder::new().prefix(&format!("handover-{name}-")).tempdir()?.keep();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// Finds a program in the given folders, then in `PATH`.
fn find(program: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders
        .iter()
        .cloned()
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Runs a program to its end. If it fails, the error contains its output.
fn run(command: &mut Command) -> Result<(), BoxError> {
    let output = command.output().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    let output_text = [output.stdout, output.stderr].concat();
    Err(format!(
        "{:?} ended with {}:\n{}",
        command.get_program(),
        output.status,
        String::from_utf8_lossy(&output_text)
    )
    .into())
}

/// Creates a certificate authority (`ca.pem`) and a certificate that it signs for `localhost` (`server.pem`,
/// `server.key`).
pub fn certify(folder: &Path) -> Result<(), BoxError> {
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

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Whether any user may enter this folder.
fn is_open_to_all(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    folder
        .ancestors()
        .all(|folder| std::fs::metadata(folder).is_ok_and(|folder| folder.permissions().mode() & 0o001 != 0))
}
