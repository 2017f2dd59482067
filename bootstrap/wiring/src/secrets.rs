//! The secrets that tokens and payment callbacks are verified with: from the configuration, or made at the first start
//! and kept beside the database, readable by its owner alone.
//!
//! **Invariant:** outside loopback, and on a database that other processes share, only configured secrets are used.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use handover_system::secret_bytes;

use crate::Failure;
use crate::beside::beside;
use crate::config::{Config, DatabaseChoice, Secret};

/// Random text of 32 characters has more kinds of them than this; `changeme` typed four times has not.
const FEW_KINDS: usize = 9;

/// Both secrets.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// Signs and verifies tokens (HS256). Where tokens of others are taken none is made.
    pub jwt: Option<Secret>,
    /// Verifies the gateway's callbacks: `whsec_...`.
    pub gateway: Secret,
}

impl Secrets {
    /// Whether a service that listens at these addresses may start with what is configured. One that listens nowhere
    /// needs none.
    pub fn allow(config: &Config, listens: &[SocketAddr]) -> Result<(), Failure> {
        if !listens.is_empty() && config.database.file().is_none() {
            Secrets::of(config)?;
        }
        let Some(&listen) = listens.iter().find(|listen| !listen.ip().is_loopback()) else { return Ok(()) };
        for (key, secret) in Secrets::needed(config) {
            match secret {
                None => return Err(Failure::SecretNeeded { key, listen }),
                Some(secret) if secret.is_placeholder() => return Err(Failure::SecretWeak { key, listen }),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The secrets that this configuration works with, each if it is set.
    fn needed(config: &Config) -> impl Iterator<Item = (&'static str, Option<&Secret>)> {
        let jwt = (JWT.key, config.jwt_secret.as_ref());
        let gateway = (GATEWAY.key, config.gateway_secret.as_ref());
        let takes_others = config.auth.keys.is_some();
        [jwt, gateway].into_iter().filter(move |(key, set)| *key != JWT.key || set.is_some() || !takes_others)
    }

    /// Those that are set, the others made or found beside the database.
    pub fn of(config: &Config) -> Result<Secrets, Failure> {
        Ok(Secrets { jwt: Self::jwt(config)?, gateway: Self::gateway(config)? })
    }

    /// What tokens are signed with, if there is such a secret.
    pub fn jwt(config: &Config) -> Result<Option<Secret>, Failure> {
        match (&config.jwt_secret, &config.auth.keys) {
            (None, Some(_)) => Ok(None),
            (set, _) => JWT.found(set.as_ref(), &config.database).map(Some),
        }
    }

    /// What requests to the gateway are signed with, and its reports verified.
    pub fn gateway(config: &Config) -> Result<Secret, Failure> {
        GATEWAY.found(config.gateway_secret.as_ref(), &config.database)
    }

    /// Where each comes from, key by key; nothing is made.
    pub fn look(config: &Config) -> Vec<(&'static str, Result<Source, Failure>)> {
        let kind = |key: &str| if key == JWT.key { &JWT } else { &GATEWAY };
        let source = |key, set| kind(key).source(set, &config.database);
        Secrets::needed(config).map(|(key, set)| (key, source(key, set))).collect()
    }
}

impl Secret {
    /// Whether it looks as if somebody had typed it in for the time being.
    pub fn is_placeholder(&self) -> bool {
        let random = self.reveal().trim_start_matches("whsec_");
        random.chars().collect::<BTreeSet<char>>().len() < FEW_KINDS
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
pub enum Source {
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

/// Whether others than its owner may read or write the file.
#[cfg(unix)]
pub fn exposed(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

/// Whether others than its owner may read or write the file: not known here.
#[cfg(not(unix))]
pub fn exposed(_path: &Path) -> io::Result<bool> {
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

    fn at(listen: &str) -> [SocketAddr; 1] {
        [listen.parse().unwrap()]
    }

    const SIGNING: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn secrets_are_made_once_kept_beside_the_database_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path(), &[]);
        let [first, again] = [(); 2].map(|()| Secrets::of(&config).unwrap());
        assert_eq!((&first.jwt, &first.gateway), (&again.jwt, &again.gateway));
        let (jwt, gateway) = (first.jwt.unwrap(), first.gateway);
        assert_ne!(jwt.reveal(), gateway.reveal().trim_start_matches("whsec_"));
        assert_eq!((jwt.reveal().len(), gateway.reveal().len()), (64, 70));
        assert!(!jwt.is_placeholder() && !gateway.is_placeholder());
        for purpose in ["jwt-secret", "gateway-secret"] {
            assert!(!exposed(&folder.path().join(format!("shop.db-{purpose}"))).unwrap());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no draft is left");
    }

    #[test]
    fn placeholders_have_few_kinds_of_characters_and_random_text_many() {
        for typed in [&"changeme".repeat(4), &"a".repeat(32), "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
            assert!(Secret::new(typed).is_placeholder(), "{typed}");
        }
        assert!(!Secret::new("0f4a9c1be27d83560f4a9c1be27d8356").is_placeholder());
    }

    #[test]
    fn outside_loopback_both_secrets_must_be_set() {
        let folder = tempfile::tempdir().unwrap();
        let jwt = ("HANDOVER_AUTH__JWT_SECRET", "an-example-of-a-secret-with-enough-bytes");
        let gateway = ("HANDOVER_GATEWAY__SECRET", SIGNING);
        let needed =
            |more: &[(&str, &str)], listen| match Secrets::allow(&config(folder.path(), more), &at(listen)) {
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
    fn outside_loopback_no_secret_may_look_like_a_placeholder_whichever_listener_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let typed = ("HANDOVER_AUTH__JWT_SECRET", "changemechangemechangemechangeme");
        let jwt = ("HANDOVER_AUTH__JWT_SECRET", "an-example-of-a-secret-with-enough-bytes");
        let typed_gateway = ("HANDOVER_GATEWAY__SECRET", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
        let gateway = ("HANDOVER_GATEWAY__SECRET", SIGNING);
        let (inside, outside) = (at("127.0.0.1:1")[0], at("192.0.2.1:1")[0]);
        for (set, weak) in [([typed, gateway], "auth.jwt-secret"), ([jwt, typed_gateway], "gateway.secret")] {
            let config = config(folder.path(), &set);
            Secrets::allow(&config, &[inside]).unwrap();
            let refused = Secrets::allow(&config, &[inside, outside]);
            assert!(matches!(refused, Err(Failure::SecretWeak { key, .. }) if key == weak));
        }
    }

    #[test]
    fn where_tokens_of_others_are_taken_no_secret_of_our_own_is_made_or_needed() {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys.json");
        let key = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        fs::write(&keys, key).unwrap();
        let keys = keys.display().to_string();
        let set = [
            ("HANDOVER_AUTH__JWKS_FILE", keys.as_str()),
            ("HANDOVER_AUTH__AUDIENCE", "shop"),
            ("HANDOVER_GATEWAY__SECRET", SIGNING),
        ];
        let config = config(folder.path(), &set);
        Secrets::allow(&config, &at("0.0.0.0:8080")).unwrap();
        assert_eq!(Secrets::of(&config).unwrap().jwt, None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the keys alone are there");
    }

    #[test]
    fn on_a_server_both_secrets_must_be_set_and_nothing_is_made() {
        let url = ("HANDOVER_DATABASE__URL", "postgres://shop:hush@db/shop");
        let jwt = ("HANDOVER_AUTH__JWT_SECRET", "an-example-of-a-secret-with-enough-bytes");
        let gateway = ("HANDOVER_GATEWAY__SECRET", SIGNING);
        let load = |more: &[(&str, &str)]| {
            let variables = more.iter().chain([&url]).map(|(name, value)| ((*name).into(), (*value).into()));
            Config::load(&Sources { variables: variables.collect(), ..Sources::default() }).unwrap()
        };
        for (set, missing) in
            [(&[][..], "auth.jwt-secret"), (&[jwt], "gateway.secret"), (&[gateway], "auth.jwt-secret")]
        {
            let refused = Secrets::allow(&load(set), &at("127.0.0.1:8080")).unwrap_err();
            assert!(matches!(&refused, Failure::SecretShared { key, .. } if *key == missing), "{refused}");
            assert!(!refused.explain().to_string().contains("hush"));
            Secrets::allow(&load(set), &[]).unwrap();
        }
        Secrets::allow(&load(&[jwt, gateway]), &at("127.0.0.1:8080")).unwrap();
    }

    #[test]
    fn many_first_starts_at_once_agree_on_one_secret() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path(), &[]);
        let found: Vec<Secret> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| Secrets::jwt(&config))).collect();
            starts.into_iter().map(|start| start.join().unwrap().unwrap().unwrap()).collect()
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
