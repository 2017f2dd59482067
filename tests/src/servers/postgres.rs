//! PostgreSQL servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::rabbitmq::Encryption;
use super::server_process::EndWith;
use super::{Durability, certify, find, is_open_to_all, is_root, run};
use crate::process::BoxError;

/// User of the server process when the tests run as root, because PostgreSQL refuses to run as root.
const USER: &str = "postgres";

/// After SIGQUIT the server ends immediately, but still removes its shared memory.
pub(super) const END: EndWith = EndWith::Quit;

fn program(name: &str) -> Result<PathBuf, BoxError> {
    let mut folders: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    folders.sort();
    let folders: Vec<PathBuf> = folders.into_iter().rev().map(|(_, folder)| folder).collect();
    find(name, &folders).ok_or_else(|| {
        format!("{name} is missing: install PostgreSQL 13 or later (Debian: apt-get install postgresql)")
            .into()
    })
}

/// Command line that runs a program as the server's user.
fn as_user(program: &Path) -> Result<Vec<String>, BoxError> {
    let program = program.display().to_string();
    if !is_root() {
        return Ok(vec![program]);
    }
    let setpriv = find("setpriv", &[]).ok_or("setpriv is missing: install util-linux")?;
    let as_user = [format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".to_owned()];
    Ok([setpriv.display().to_string()].into_iter().chain(as_user).chain([program]).collect())
}

/// Creates a database cluster in this folder.
pub(super) fn make(folder: &Path) -> Result<(), BoxError> {
    if is_root() {
        if !is_open_to_all(folder) {
            return Err(format!("the user {USER} cannot enter {}: set TMPDIR", folder.display()).into());
        }
        run(Command::new("chown").arg(USER).arg(folder))?;
    }
    let command = as_user(&program("initdb")?)?;
    run(Command::new(&command[0])
        .args(&command[1..])
        .arg("-D")
        .arg(folder.join("data"))
        .args(["-U", "handover", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"])
        .current_dir(folder))
}

/// Configures the server to accept TLS connections only.
pub(super) fn encrypt(folder: &Path) -> Result<(), BoxError> {
    certify(folder)?;
    let key = folder.join("server.key");
    if is_root() {
        run(Command::new("chown").arg(USER).args([&key, &folder.join("server.pem")]))?;
    }
    run(Command::new("chmod").arg("600").arg(&key))?;
    std::fs::write(folder.join("data/pg_hba.conf"), "hostssl all all all trust\n")?;
    Ok(())
}

/// Command line of the server.
pub(super) fn command(
    folder: &Path,
    port: u16,
    durability: Durability,
    encryption: Encryption,
) -> Result<Vec<String>, BoxError> {
    let mut command = as_user(&program("postgres")?)?;
    command.extend(["-D".to_owned(), folder.join("data").display().to_string()]);
    let mut settings = vec![
        format!("port={port}"),
        "listen_addresses=127.0.0.1".to_owned(),
        format!("unix_socket_directories={}", folder.display()),
        "max_connections=300".to_owned(),
        "log_line_prefix=%m [%p] %d ".to_owned(),
        // Defaults that an administrator may have set for other services must not affect the program.
        "default_transaction_isolation=serializable".to_owned(),
        "timezone=Asia/Shanghai".to_owned(),
    ];
    let of_durability: &[&str] = match durability {
        Durability::Full => &["shared_buffers=512MB", "max_wal_size=4GB"],
        Durability::None => &[
            "shared_buffers=64MB",
            "autovacuum_naptime=1s",
            "fsync=off",
            "synchronous_commit=off",
            "full_page_writes=off",
        ],
    };
    settings.extend(of_durability.iter().map(|&setting| setting.to_owned()));
    match encryption {
        Encryption::None => {}
        Encryption::Offered => {
            settings.push("ssl=on".to_owned());
            for (option, file) in [("cert", "server.pem"), ("key", "server.key")] {
                settings.push(format!("ssl_{option}_file={}", folder.join(file).display()));
            }
        }
    }
    command.extend(settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]));
    Ok(command)
}
