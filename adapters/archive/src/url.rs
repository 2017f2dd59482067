//! The place of an archive, as settings name it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use handover_outbox::archive::ArchiveStorage;

#[cfg(feature = "s3")]
use crate::bucket::{BucketArchive, BucketUrl};
use crate::folder::FolderArchive;

/// The place of an archive: `file:archive`, `file:///srv/archive` or `s3://bucket/folder?region=eu-central-1`.
///
/// A relative path is relative to the working folder of the process. The parameters of a bucket are `region` and `endpoint`,
/// the URL of another server than Amazon's. Credentials are never part of the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveUrl {
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Folder(PathBuf),
    #[cfg(feature = "s3")]
    Bucket(BucketUrl),
}

/// Reason why a text names no archive. Its message does not contain the text, which could contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveUrlError {
    /// The scheme is neither `file` nor `s3`.
    #[error("the scheme is not supported; the schemes are file: and s3:")]
    Scheme,
    /// `file:` without a path, or with more than a path.
    #[error("{0}")]
    Path(&'static str),
    /// The cargo feature `s3` is off.
    #[error("this program is built without archives in buckets (feature s3 of the crate handover-archive)")]
    WithoutS3,
    /// `s3:` without a valid bucket, folder or parameter.
    #[error("{0}")]
    Bucket(String),
}

/// An archive cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot open the archive {archive}: {why}")]
pub struct OpenError {
    /// Place of the archive.
    pub archive: String,
    /// Cause, and what to do.
    pub why: String,
}

impl ArchiveUrl {
    /// Examples, for the remedy of an [`ArchiveUrlError`].
    pub const EXAMPLES: &str =
        "write file:archive (in this folder), file:///srv/archive or s3://bucket/folder?region=eu-central-1";

    /// Reads the place of an archive.
    pub fn parse(text: &str) -> Result<ArchiveUrl, ArchiveUrlError> {
        let place = match text.split_once(':') {
            Some(("file", path)) => Place::Folder(path_of(path)?),
            #[cfg(feature = "s3")]
            Some(("s3", _)) => Place::Bucket(BucketUrl::parse(text).map_err(ArchiveUrlError::Bucket)?),
            #[cfg(not(feature = "s3"))]
            Some(("s3", _)) => return Err(ArchiveUrlError::WithoutS3),
            Some(_) | None => return Err(ArchiveUrlError::Scheme),
        };
        Ok(ArchiveUrl { place })
    }

    /// Opens the archive. A folder is created; a bucket is not contacted. Its credentials, and parameters that the URL lacks, are
    /// in the environment variables of AWS's tools: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`,
    /// `AWS_REGION`, `AWS_ENDPOINT_URL`.
    pub fn open(&self) -> Result<Arc<dyn ArchiveStorage>, OpenError> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        self.open_with(std::env::vars_os().filter_map(text))
    }

    /// As [`open`](ArchiveUrl::open), with these environment variables.
    pub fn open_with(
        &self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Arc<dyn ArchiveStorage>, OpenError> {
        let opened: Result<Arc<dyn ArchiveStorage>, String> = match &self.place {
            Place::Folder(path) => match FolderArchive::open(path) {
                Ok(archive) => Ok(Arc::new(archive)),
                Err(error) => Err(format!("{error}; create the folder, or allow this process to do it")),
            },
            #[cfg(feature = "s3")]
            Place::Bucket(url) => match BucketArchive::open(url, variables) {
                Ok(archive) => Ok(Arc::new(archive)),
                Err(why) => Err(why),
            },
        };
        #[cfg(not(feature = "s3"))]
        drop(variables);
        opened.map_err(|why| OpenError { archive: self.to_string(), why })
    }
}

impl fmt::Display for ArchiveUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Folder(path) if path.is_absolute() => write!(f, "file://{}", path.display()),
            Place::Folder(path) => write!(f, "file:{}", path.display()),
            #[cfg(feature = "s3")]
            Place::Bucket(url) => url.fmt(f),
        }
    }
}

fn path_of(rest: &str) -> Result<PathBuf, ArchiveUrlError> {
    let path = match rest.strip_prefix("//") {
        // RFC 8089: between the slashes is a host.
        Some(path) if !path.starts_with('/') => {
            return Err(ArchiveUrlError::Path(
                "file:// is followed by an absolute path: file:///srv/archive",
            ));
        }
        Some(path) => path,
        None => rest,
    };
    if path.is_empty() {
        return Err(ArchiveUrlError::Path("it names no folder"));
    }
    if path.contains(['?', '#', '%']) {
        return Err(ArchiveUrlError::Path("only a plain path is allowed, without options or escapes"));
    }
    Ok(PathBuf::from(path))
}
