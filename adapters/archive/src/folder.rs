//! Archive files in a folder.
//!
//! **Invariant:** a file has its name only when its bytes are on the disk, and `write` returns only when its name is, too.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use handover_outbox::archive::{ArchiveStorage, ArchiveStorageError, WrittenFile};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// Compression level: the default of zstd. Higher levels take several times as long for a few percent.
const LEVEL: i32 = 3;

/// An archive in a folder of the file system.
#[derive(Debug, Clone)]
pub struct FolderArchive {
    root: PathBuf,
}

impl FolderArchive {
    /// The archive in this folder, which is created if it does not exist.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<FolderArchive> {
        let archive = FolderArchive { root: root.into() };
        create_folder(&archive.root)?;
        Ok(archive)
    }

    fn path(&self, name: &str, extension: &str) -> io::Result<PathBuf> {
        let is_allowed = |part: &str| {
            let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
            !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_allowed)
        };
        if !name.split('/').all(is_allowed) {
            let why = "the name may consist of a to z, digits, hyphens, dots and slashes";
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        Ok(self.root.join(format!("{name}.{extension}")))
    }

    fn write_file(&self, name: &str, content: &[u8]) -> io::Result<WrittenFile> {
        let compressed = zstd::encode_all(content, LEVEL)?;
        let written = WrittenFile {
            bytes: compressed.len().try_into().unwrap_or(u64::MAX),
            sha256: checksum(&compressed),
        };
        let manifest = json!({
            "format": 1,
            "file": format!("{name}.zst"),
            "bytes": written.bytes,
            "sha256": &written.sha256,
            "contentBytes": content.len(),
            "lines": content.iter().filter(|byte| **byte == b'\n').count(),
        });
        store(&self.path(name, "zst")?, &compressed)?;
        store(&self.path(name, "json")?, format!("{manifest:#}\n").as_bytes())?;
        Ok(written)
    }

    fn read_file(&self, name: &str, sha256: &str) -> Result<Vec<u8>, ArchiveStorageError> {
        let failed = |error: io::Error| {
            if error.kind() == ErrorKind::NotFound {
                ArchiveStorageError::Missing { name: name.to_owned() }
            } else {
                unavailable("read", name, &error)
            }
        };
        let path = self.path(name, "zst").map_err(failed)?;
        let compressed = fs::read(path).map_err(failed)?;
        let found = checksum(&compressed);
        if found != sha256 {
            let why = format!("its SHA-256 is {found} instead of {sha256}");
            return Err(ArchiveStorageError::Damaged { name: name.to_owned(), why });
        }
        let damaged = |error: io::Error| ArchiveStorageError::Damaged {
            name: name.to_owned(),
            why: format!("it cannot be decompressed: {error}"),
        };
        zstd::decode_all(compressed.as_slice()).map_err(damaged)
    }

    /// Runs work on files where it may block.
    async fn blocking<T: Send + 'static>(
        &self,
        what: &'static str,
        name: &str,
        work: impl FnOnce(FolderArchive) -> Result<T, ArchiveStorageError> + Send + 'static,
    ) -> Result<T, ArchiveStorageError> {
        let archive = self.clone();
        let ended = tokio::task::spawn_blocking(move || work(archive)).await;
        ended.unwrap_or_else(|error| Err(unavailable(what, name, &error)))
    }
}

#[async_trait]
impl ArchiveStorage for FolderArchive {
    async fn write(&self, name: &str, content: &[u8]) -> Result<WrittenFile, ArchiveStorageError> {
        let file = name.to_owned();
        let content = content.to_vec();
        self.blocking("write", name, move |archive| {
            archive.write_file(&file, &content).map_err(|error| unavailable("write", &file, &error))
        })
        .await
    }

    async fn read(&self, name: &str, sha256: &str) -> Result<Vec<u8>, ArchiveStorageError> {
        let file = name.to_owned();
        let sha256 = sha256.to_owned();
        self.blocking("read", name, move |archive| archive.read_file(&file, &sha256)).await
    }
}

fn unavailable(what: &str, name: &str, why: &dyn std::fmt::Display) -> ArchiveStorageError {
    ArchiveStorageError::Unavailable { what: format!("{what} the file {name}"), why: why.to_string() }
}

fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Stores a file durably under its path, at once and as a whole.
fn store(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_folder(folder)?;
    let mut unnamed = path.as_os_str().to_owned();
    unnamed.push(".part");
    let unnamed = PathBuf::from(unnamed);
    let mut file = File::create(&unnamed)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unnamed, path)?;
    sync_folder(folder)
}

/// Creates a folder and those above it durably.
fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().unwrap_or(Path::new(""));
    create_folder(above)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    sync_folder(above)
}

/// Makes the names in a folder durable. Windows has no such call: it writes them with the files.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(windows) {
        return Ok(());
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}
