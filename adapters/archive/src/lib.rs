//! The files of an archive, compressed with zstd, in a folder.
//!
//! Each file `<name>.zst` has a manifest `<name>.json` beside it, with its size, its SHA-256, and the size and number of lines
//! of its content. Both can be checked without this crate: `sha256sum`, `zstd --decompress`.

#![warn(missing_docs)]

mod folder;

pub use folder::FolderArchive;
