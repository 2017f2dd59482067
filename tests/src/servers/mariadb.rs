//! MariaDB servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::rabbitmq::Encryption;
use super::server_process::EndWith;
use super::{Durability, PASSWORD, find, is_root, run};
use crate::process::BoxError;

pub(super) const END: EndWith = EndWith::Kill;

/// Options of a server with a binary log.
pub(super) const BINARY_LOG: [&str; 3] = ["--log-bin=binary-log", "--binlog-format=ROW", "--server-id=1"];

fn program(name: &str) -> Result<PathBuf, BoxError> {
    let folders = ["/usr/sbin", "/usr/libexec", "/usr/local/sbin"].map(PathBuf::from);
    find(name, &folders).ok_or_else(|| {
        format!("{name} is missing: install MariaDB 10.6 or later (Debian: apt-get install mariadb-server)")
            .into()
    })
}

fn user() -> Vec<String> {
    if is_root() { vec!["--user=root".to_owned()] } else { Vec::new() }
}

/// Creates the system tables in this folder.
pub(super) fn make(folder: &Path) -> Result<(), BoxError> {
    let accounts = format!(
        "CREATE USER IF NOT EXISTS 'handover'@'%' IDENTIFIED BY '{PASSWORD}';\n\
         GRANT ALL ON *.* TO 'handover'@'%' WITH GRANT OPTION;\n"
    );
    std::fs::write(folder.join("accounts.sql"), accounts)?;
    run(Command::new(program("mariadb-install-db")?)
        .args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"])
        .args(["--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=32M"])
        .arg(format!("--datadir={}", folder.join("data").display()))
        // Each server needs its own TMPDIR: on startup it removes all temporary tables there, even those of other
        // servers.
        .env("TMPDIR", folder)
        .args(user())
        .current_dir(folder))
}

/// Command line of the server.
pub(super) fn command(
    folder: &Path,
    port: u16,
    durability: Durability,
    encryption: Encryption,
) -> Result<Vec<String>, BoxError> {
    let mut command = vec![program("mariadbd")?.display().to_string(), "--no-defaults".to_owned()];
    command.extend([
        format!("--datadir={}", folder.join("data").display()),
        format!("--socket={}", folder.join("socket").display()),
        format!("--init-file={}", folder.join("accounts.sql").display()),
        format!("--pid-file={}", folder.join("pid").display()),
        format!("--tmpdir={}", folder.display()),
        format!("--port={port}"),
    ]);
    command.extend(
        [
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--max-connections=300",
            // Defaults that an administrator may have set for other services must not affect the program.
            "--sql-mode=",
            "--character-set-server=latin1",
            "--default-time-zone=+08:00",
            "--transaction-isolation=SERIALIZABLE",
        ]
        .map(str::to_owned),
    );
    let of_durability: &[&str] = match durability {
        Durability::Full => &[
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-buffer-pool-size=512M",
            // The file is allocated at once, and several servers run in memory.
            "--innodb-log-file-size=256M",
        ],
        Durability::None => &[
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-doublewrite=0",
            "--innodb-flush-method=nosync",
            "--innodb-buffer-pool-size=128M",
            "--innodb-log-file-size=64M",
        ],
    };
    command.extend(of_durability.iter().map(|&option| option.to_owned()));
    match encryption {
        Encryption::None => {}
        Encryption::Offered => {
            for (option, file) in [("ca", "ca.pem"), ("cert", "server.pem"), ("key", "server.key")] {
                command.push(format!("--ssl-{option}={}", folder.join(file).display()));
            }
            command.push("--require-secure-transport=ON".to_owned());
        }
    }
    command.extend(user());
    Ok(command)
}
