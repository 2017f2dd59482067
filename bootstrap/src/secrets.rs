//! The secrets that tokens and payment callbacks are verified with: from the configuration, or made at the first start
//! and kept beside the database, readable by its owner alone.
//!
//! **Invariant:** outside loopback, and on a database that other processes share, only configured secrets are used.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use handover_system::secret_bytes;

use crate::Failure;
use crate::beside::beside;
use crate::config::{Config, DatabaseChoice, Secret};

/// Both secrets.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// Signs and verifies tokens (HS256).
    pub jwt: Secret,
    /// Verifies the gateway's callbacks: `whsec_...`.
    pub gateway: Secret,
}

impl Secrets {
    /// Whether a service that listens there may start with what is configured. One that listens nowhere needs none.
    pub fn allow(config: &Config, listen: Option<SocketAddr>) -> Result<(), Failure> {
        if listen.is_some() && config.database.file().is_none() {
            Secrets::of(config)?;
        }
        if let Some(listen) = listen.filter(|listen| !listen.ip().is_loopback()) {
            for (key, secret) in
                [("auth.jwt-secret", &config.jwt_secret), ("gateway.secret", &config.gateway_secret)]
            {
                if secret.is_none() {
                    return Err(Failure::SecretNeeded { key, listen });
                }
            }
        }
        Ok(())
    }

    /// Those that are set, the others made or found beside the database.
    pub fn of(config: &Config) -> Result<Secrets, Failure> {
        Ok(Secrets { jwt: Self::jwt(config)?, gateway: Self::gateway(config)? })
    }

    /// What tokens are signed with.
    pub fn jwt(config: &Config) -> Result<Secret, Failure> {
        JWT.found(config.jwt_secret.as_ref(), &config.database)
    }

    /// What requests to the gateway are signed with, and its reports verified.
    pub fn gateway(config: &Config) -> Result<Secret, Failure> {
        GATEWAY.found(config.gateway_secret.as_ref(), &config.database)
    }

    /// Where each comes from, key by key; nothing is made.
    pub(crate) fn look(config: &Config) -> [(&'static str, Result<Source, Failure>); 2] {
        [
            (JWT.key, JWT.source(config.jwt_secret.as_ref(), &config.database)),
            (GATEWAY.key, GATEWAY.source(config.gateway_secret.as_ref(), &config.database)),
        ]
    }
}

/// One of the two.
struct Kind {
    key: &'static str,
    /// What the file beside the database is called after.
    purpose: &'static str,
    /// What it begins with.
    prefix: &'static str,
}

const JWT: Kind = Kind { key: "auth.jwt-secret", purpose: "jwt-secret", prefix: "" };
// Hexadecimal is base64 too, so it may follow the prefix as it is.
const GATEWAY: Kind = Kind { key: "gateway.secret", purpose: "gateway-secret", prefix: "whsec_" };

impl Kind {
    /// Set, or kept beside the database; made if it is not there.
    fn found(&self, set: Option<&Secret>, database: &DatabaseChoice) -> Result<Secret, Failure> {
        match set {
            Some(secret) => Ok(secret.clone()),
            None => kept(&self.path(database)?, self.prefix),
        }
    }

    fn source(&self, set: Option<&Secret>, database: &DatabaseChoice) -> Result<Source, Failure> {
        if let Some(secret) = set {
            return Ok(Source::Set(secret.clone()));
        }
        let path = self.path(database)?;
        if path.exists() {
            read(&path, self.prefix).map(|_| Source::Kept(path))
        } else {
            Ok(Source::ToBeMade)
        }
    }

    /// Where it is kept: a database of many processes has nothing beside it.
    fn path(&self, database: &DatabaseChoice) -> Result<PathBuf, Failure> {
        match database {
            DatabaseChoice::File(path) => Ok(beside(path, self.purpose)),
            DatabaseChoice::Server(_) => {
                Err(Failure::SecretShared { key: self.key, database: database.clone() })
            }
        }
    }
}

/// Where a secret comes from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// The configuration.
    Set(Secret),
    /// A file beside the database.
    Kept(PathBuf),
    /// It will be made by the first start.
    ToBeMade,
}

/// The secret in the file; made if the file is not there.
fn kept(path: &Path, prefix: &str) -> Result<Secret, Failure> {
    if !path.exists() {
        make(path, prefix, |cause| Failure::SecretFile { path: path.to_owned(), cause })?;
    }
    read(path, prefix)
}

fn read(path: &Path, prefix: &str) -> Result<Secret, Failure> {
    let failed = |cause| Failure::SecretFile { path: path.to_owned(), cause };
    if exposed(path).map_err(failed)? {
        return Err(Failure::SecretExposed { path: path.to_owned() });
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    let secret = text.trim();
    if secret.len() < prefix.len() + 32 || !secret.starts_with(prefix) {
        return Err(Failure::SecretBroken { path: path.to_owned() });
    }
    Ok(Secret::new(secret))
}

/// Written whole under another name, then linked: who finds the file finds all of it, and of two that make it at once
/// one wins.
fn make(path: &Path, prefix: &str, failed: impl Fn(io::Error) -> Failure) -> Result<(), Failure> {
    let draft = beside(path, &format!("{}.new", hex(&secret_bytes::<8>()?)));
    let hex = hex(&secret_bytes::<32>()?);
    let written = write_private(&draft, &format!("{prefix}{hex}\n")).and_then(|()| {
        fs::hard_link(&draft, path)
            .or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
    });
    let _ = fs::remove_file(&draft);
    written.map_err(failed)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(unix)]
pub(crate) fn exposed(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
pub(crate) fn exposed(_path: &Path) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    fn config(folder: &Path, more: &[(&str, &str)]) -> Config {
        let url = format!("sqlite://{}", folder.join("shop.db").display());
        let mut variables = vec![("HANDOVER_DATABASE__URL".to_owned(), url)];
        variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Config::load(&Sources { variables, ..Sources::default() }).unwrap()
    }

    fn at(listen: &str) -> Option<SocketAddr> {
        Some(listen.parse().unwrap())
    }

    #[test]
    fn secrets_are_made_once_kept_beside_the_database_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path(), &[]);
        let [first, again] = [(); 2].map(|()| Secrets::of(&config).unwrap());
        assert_eq!((&first.jwt, &first.gateway), (&again.jwt, &again.gateway));
        assert_ne!(first.jwt.reveal(), first.gateway.reveal().trim_start_matches("whsec_"));
        assert_eq!((first.jwt.reveal().len(), first.gateway.reveal().len()), (64, 70));
        for purpose in ["jwt-secret", "gateway-secret"] {
            assert!(!exposed(&folder.path().join(format!("shop.db-{purpose}"))).unwrap());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no draft is left");
    }

    #[test]
    fn outside_loopback_both_secrets_must_be_set() {
        let folder = tempfile::tempdir().unwrap();
        let jwt = ("HANDOVER_AUTH__JWT_SECRET", "an-example-of-a-secret-with-enough-bytes");
        let signing = format!("whsec_{}", "cd".repeat(32));
        let gateway = ("HANDOVER_GATEWAY__SECRET", signing.as_str());
        let needed =
            |more: &[(&str, &str)], listen| match Secrets::allow(&config(folder.path(), more), at(listen)) {
                Err(Failure::SecretNeeded { key, .. }) => Some(key),
                Ok(()) => None,
                Err(other) => panic!("{other}"),
            };
        for listen in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:8080"] {
            assert_eq!(needed(&[], listen), Some("auth.jwt-secret"));
            assert_eq!(needed(&[jwt], listen), Some("gateway.secret"));
            assert_eq!(needed(&[gateway], listen), Some("auth.jwt-secret"));
            assert_eq!(needed(&[jwt, gateway], listen), None);
        }
        for listen in ["127.0.0.1:8080", "[::1]:8080"] {
            assert_eq!(needed(&[], listen), None);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is made that is not used");
    }

    #[test]
    fn on_a_server_both_secrets_must_be_set_and_nothing_is_made() {
        let url = ("HANDOVER_DATABASE__URL", "postgres://shop:hush@db/shop");
        let jwt = ("HANDOVER_AUTH__JWT_SECRET", "an-example-of-a-secret-with-enough-bytes");
        let signing = format!("whsec_{}", "cd".repeat(32));
        let gateway = ("HANDOVER_GATEWAY__SECRET", signing.as_str());
        let load = |more: &[(&str, &str)]| {
            let variables = more.iter().chain([&url]).map(|(name, value)| ((*name).into(), (*value).into()));
            Config::load(&Sources { variables: variables.collect(), ..Sources::default() }).unwrap()
        };
        for (set, missing) in
            [(&[][..], "auth.jwt-secret"), (&[jwt], "gateway.secret"), (&[gateway], "auth.jwt-secret")]
        {
            let refused = Secrets::allow(&load(set), at("127.0.0.1:8080")).unwrap_err();
            assert!(matches!(&refused, Failure::SecretShared { key, .. } if *key == missing), "{refused}");
            assert!(!refused.explain().to_string().contains("hush"));
            Secrets::allow(&load(set), None).unwrap();
        }
        Secrets::allow(&load(&[jwt, gateway]), at("127.0.0.1:8080")).unwrap();
    }

    #[test]
    fn many_first_starts_at_once_agree_on_one_secret() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path(), &[]);
        let found: Vec<Secret> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| Secrets::jwt(&config))).collect();
            starts.into_iter().map(|start| start.join().unwrap().unwrap()).collect()
        });
        assert!(found.iter().all(|secret| *secret == found[0]));
    }

    #[cfg(unix)]
    #[test]
    fn a_secret_file_that_others_can_read_or_that_is_empty_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path(), &[]);
        Secrets::jwt(&config).unwrap();
        let path = folder.path().join("shop.db-jwt-secret");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Secrets::jwt(&config), Err(Failure::SecretExposed { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "\n").unwrap();
        assert!(matches!(Secrets::jwt(&config), Err(Failure::SecretBroken { .. })));
    }
}
