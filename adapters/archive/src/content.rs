//! What both storages have in common: names, compression, manifest and checksum.

use async_trait::async_trait;
use handover_outbox::archive::{ArchiveStorageError, WrittenFile};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// Compression level: the default of zstd. Higher levels take several times as long for a few percent.
const LEVEL: i32 = 3;

/// Stores bytes under names that [`check_name`] accepts. Errors are the cause, for operators.
#[async_trait]
pub(crate) trait Files: Send + Sync {
    /// Stores a file as [`ArchiveStorage::write`](handover_outbox::archive::ArchiveStorage::write) requires.
    async fn put(&self, file: &str, bytes: Vec<u8>) -> Result<(), String>;

    /// The bytes of a file; `None` if there is no such file.
    async fn get(&self, file: &str) -> Result<Option<Vec<u8>>, String>;

    /// Removes a file durably, if there is one, and what an interrupted `put` of it has left.
    async fn delete(&self, file: &str) -> Result<(), String>;
}

/// Stores the compressed content, then its manifest.
pub(crate) async fn write(
    files: &dyn Files,
    name: &str,
    content: &[u8],
) -> Result<WrittenFile, ArchiveStorageError> {
    let failed = |why| unavailable("write", name, why);
    check_name(name).map_err(failed)?;
    let content_bytes = content.len();
    let lines = content.iter().filter(|byte| **byte == b'\n').count();
    let content = content.to_vec();
    let (compressed, sha256) = blocking(move || {
        let compressed = zstd::encode_all(content.as_slice(), LEVEL).map_err(|error| error.to_string())?;
        let sha256 = checksum(&compressed);
        Ok((compressed, sha256))
    })
    .await
    .map_err(failed)?;
    let written = WrittenFile { bytes: compressed.len().try_into().unwrap_or(u64::MAX), sha256 };
    let manifest = json!({
        "format": 1,
        "file": format!("{name}.zst"),
        "bytes": written.bytes,
        "sha256": &written.sha256,
        "contentBytes": content_bytes,
        "lines": lines,
    });
    files.put(&format!("{name}.zst"), compressed).await.map_err(failed)?;
    files.put(&format!("{name}.json"), format!("{manifest:#}\n").into_bytes()).await.map_err(failed)?;
    Ok(written)
}

/// The content of a file with this checksum.
pub(crate) async fn read(
    files: &dyn Files,
    name: &str,
    sha256: &str,
) -> Result<Vec<u8>, ArchiveStorageError> {
    let failed = |why| unavailable("read", name, why);
    check_name(name).map_err(failed)?;
    let Some(compressed) = files.get(&format!("{name}.zst")).await.map_err(failed)? else {
        return Err(ArchiveStorageError::Missing { name: name.to_owned() });
    };
    let sha256 = sha256.to_owned();
    blocking(move || {
        let found = checksum(&compressed);
        if found != sha256 {
            return Ok(Err(format!("its SHA-256 is {found} instead of {sha256}")));
        }
        let content = zstd::decode_all(compressed.as_slice());
        Ok(content.map_err(|error| format!("it cannot be decompressed: {error}")))
    })
    .await
    .map_err(failed)?
    .map_err(|why| ArchiveStorageError::Damaged { name: name.to_owned(), why })
}

/// Removes a file, then its manifest.
pub(crate) async fn remove(files: &dyn Files, name: &str) -> Result<(), ArchiveStorageError> {
    let failed = |why| unavailable("remove", name, why);
    check_name(name).map_err(failed)?;
    files.delete(&format!("{name}.zst")).await.map_err(failed)?;
    files.delete(&format!("{name}.json")).await.map_err(failed)
}

/// Refuses names that could lead out of the archive, or that a file system does not distinguish.
fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |part: &str| {
        let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_allowed)
    };
    if name.split('/').all(is_allowed) {
        Ok(())
    } else {
        Err("the name may consist of a to z, digits, hyphens, dots and slashes".to_owned())
    }
}

fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unavailable(what: &str, name: &str, why: String) -> ArchiveStorageError {
    ArchiveStorageError::Unavailable { what: format!("{what} the file {name}"), why }
}

/// Runs work that blocks or takes long on a thread for such work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}
