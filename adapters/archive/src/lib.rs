//! The files of an archive, compressed with zstd, in a folder or in a bucket of an S3-compatible object store.
//!
//! Each file `<name>.zst` has a manifest `<name>.json` beside it, with its size, its SHA-256, and the size and number of lines
//! of its content. Both can be checked without this crate: `sha256sum`, `zstd --decompress`.

#![warn(missing_docs)]

#[cfg(feature = "s3")]
mod bucket;
mod content;
mod folder;
mod url;

pub use folder::FolderArchive;
pub use url::{ArchiveUrl, ArchiveUrlError, OpenError};
