//! Servers that tests start for themselves: private, on free ports of 127.0.0.1, in a folder that goes with them.
//!
//! A binary of tests starts each server at most once and every test of it gets a database of its own. A server ends with
//! the process that started it, whatever ends that process: see [`watched`].
//!
//! A server that is not installed is an error that says how to install it, never a test that is passed over.

pub mod database;
pub mod mariadb;
pub mod postgres;
pub mod proxy;
pub mod rabbitmq;
pub mod redis;
pub mod watched;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::Fault;

/// Whether what a server said was done survives a crash of the machine. One of the process it survives in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// As in production.
    Full,
    /// Nothing waits for the disk: for tests of everything else.
    None,
}

/// Below the ports that outgoing connections and listeners on port 0 get: nobody takes one by chance.
const PORTS: std::ops::Range<u32> = 20_000..32_000;

/// A port that is free now, and that no other call in this process gets.
pub fn free_port() -> Result<u16, Fault> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Other binaries of tests begin elsewhere.
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

/// What the program signs in with at every server; no program may show it (`canary`).
pub const PASSWORD: &str = "a-canary-in-place-of-a-password";

/// A folder for a server that may run as another user, with a name short enough for sockets in it.
pub fn server_folder(name: &str) -> Result<PathBuf, Fault> {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::Builder::new().prefix(&format!("handover-{name}-")).tempdir()?.keep();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// A program: the first of these folders that has it, or the path.
fn find(program: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders
        .iter()
        .cloned()
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Runs a program to its end; its output is the error.
fn run(command: &mut Command) -> Result<(), Fault> {
    let output = command.output().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!(
        "{:?} ended with {}:\n{}",
        command.get_program(),
        output.status,
        String::from_utf8_lossy(&said)
    )
    .into())
}

/// Makes an authority, `ca.pem`, and a certificate of it for `localhost`, `server.pem` with `server.key`.
pub fn certify(folder: &Path) -> Result<(), Fault> {
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

/// Whether this process is root.
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
