//! Secrets: configured, or generated at the first start and stored next to the database file, readable by its owner only.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use handover_system::secret_bytes;

use crate::config::Secret;
use crate::failure::Failure;
use crate::settings::DatabaseChoice;
use crate::sibling_file::sibling_file;

/// Fewest distinct characters of a secret that is not a placeholder: 32 random characters have more, `changeme` repeated
/// four times has fewer.
const MIN_DISTINCT_CHARS: usize = 9;

/// What happens if a secret is not set and its file does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The secret is generated.
    Generate,
    /// The call fails.
    Refuse,
}

/// Whether the secret cannot be random: few distinct characters, or mostly characters in order.
pub fn is_placeholder(secret: &Secret) -> bool {
    let random = secret.reveal().trim_start_matches("whsec_");
    let codes: Vec<u32> = random.chars().map(u32::from).collect();
    let in_order = codes.windows(2).filter(|pair| matches!(pair, [one, next] if one.abs_diff(*next) <= 1));
    codes.iter().collect::<BTreeSet<_>>().len() < MIN_DISTINCT_CHARS || in_order.count() * 2 > codes.len()
}

/// A kind of secret: its configuration key, its file and its form.
pub struct SecretKind {
    /// The configuration key.
    pub key: &'static str,
    /// Suffix of the file next to the database.
    pub purpose: &'static str,
    /// Prefix of the secret's text.
    pub prefix: &'static str,
    /// What the secrets of the program verify, for its advice.
    pub verifies: &'static [&'static str],
    /// Whether this text is a secret of this kind.
    pub is_valid: fn(&str) -> bool,
}

impl SecretKind {
    /// Returns the configured secret, or the secret in its file.
    pub fn resolve(
        &self,
        set: Option<&Secret>,
        database: &DatabaseChoice,
        missing: Missing,
    ) -> Result<Secret, Failure> {
        if let Some(secret) = set {
            return Ok(secret.clone());
        }
        let path = self.path(database)?;
        if missing == Missing::Generate && !path.exists() {
            self.generate(&path)?;
        }
        self.read(&path)
    }

    /// The source of the secret. Generates nothing.
    pub fn source(&self, set: Option<&Secret>, database: &DatabaseChoice) -> Result<Source, Failure> {
        if let Some(secret) = set {
            return Ok(Source::Set(secret.clone()));
        }
        let path = self.path(database)?;
        if path.exists() { self.read(&path).map(|_| Source::File(path)) } else { Ok(Source::NotGenerated) }
    }

    /// The secret's file next to this database file.
    pub(crate) fn file(&self, database: &Path) -> PathBuf {
        sibling_file(database, self.purpose)
    }

    /// Path of the secret's file. With a database server there is no such file, because the processes that use
    /// the server run on several machines.
    fn path(&self, database: &DatabaseChoice) -> Result<PathBuf, Failure> {
        match database {
            DatabaseChoice::File(path) => Ok(self.file(path)),
            DatabaseChoice::Server(_) => {
                let SecretKind { key, verifies, .. } = *self;
                Err(Failure::SharedSecretMissing { key, database: database.clone(), verifies })
            }
        }
    }

    /// Copies the file of the secret, if there is one, so that the secret of `copy` is the same. Returns the new file.
    pub(crate) fn copy(&self, database: &Path, copy: &Path) -> Result<Option<PathBuf>, Failure> {
        let (file, target) = (self.file(database), self.file(copy));
        if !file.exists() {
            return Ok(None);
        }
        let secret = self.read(&file)?;
        let failed = |cause| Failure::Backup { copy: target.clone(), cause };
        write_private(&target, &format!("{}\n", secret.reveal())).map_err(failed)?;
        Ok(Some(target))
    }

    fn read(&self, path: &Path) -> Result<Secret, Failure> {
        let failed = |cause| self.failed(path, cause);
        if exposed(path).map_err(failed)? {
            return Err(Failure::SecretExposed { path: path.to_owned() });
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        let secret = text.trim();
        if !(self.is_valid)(secret) {
            return Err(Failure::SecretFileInvalid { path: path.to_owned() });
        }
        Ok(Secret::new(secret))
    }

    /// Writes a draft and hard-links it to the final name: the file appears complete, and if two processes generate it at
    /// the same time, the first link is kept.
    fn generate(&self, path: &Path) -> Result<(), Failure> {
        let draft = sibling_file(path, &format!("{}.new", hex(&secret_bytes::<8>()?)));
        let hex = hex(&secret_bytes::<32>()?);
        let written = write_private(&draft, &format!("{}{hex}\n", self.prefix)).and_then(|()| {
            fs::hard_link(&draft, path).or_else(|error| {
                if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
            })
        });
        let _ = fs::remove_file(&draft);
        written.map_err(|cause| self.failed(path, cause))
    }

    fn failed(&self, path: &Path, cause: io::Error) -> Failure {
        Failure::SecretFile { path: path.to_owned(), cause, verifies: self.verifies }
    }
}

/// Source of a secret.
#[derive(Debug, Clone)]
pub enum Source {
    /// The configuration.
    Set(Secret),
    /// A file next to the database.
    File(PathBuf),
    /// The secret does not exist yet; the first start generates it.
    NotGenerated,
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

/// Whether other users may read or write the file.
#[cfg(unix)]
pub fn exposed(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

/// Whether other users may read or write the file: unknown on this platform, so `false`.
#[cfg(not(unix))]
pub fn exposed(_path: &Path) -> io::Result<bool> {
    Ok(false)
}
