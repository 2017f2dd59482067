//! Archive files in a bucket of an S3-compatible object store.
//!
//! A PUT is atomic: until it has succeeded, the earlier object is there.

mod failure;
mod transport;
mod url;

use std::time::Duration;

use async_trait::async_trait;
use handover_egress::{authorities, tls_config};
use handover_outbox::archive::{ArchiveStorage, ArchiveStorageError, WrittenFile};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStoreExt as _, RetryConfig};
use rustls::RootCertStore;

pub(crate) use self::url::BucketUrl;
use crate::content::{self, Files};
use failure::{code, why};
use transport::Connector;

/// Few retries, for a connection that was closed or a server that is busy: the caller repeats what failed.
const RETRIES: usize = 2;
/// Time after which a request is not retried.
const RETRY_FOR: Duration = Duration::from_secs(60);

/// An archive in a bucket.
pub(crate) struct BucketArchive {
    store: AmazonS3,
    bucket: String,
    folder: Path,
    /// The server, for messages.
    server: String,
}

impl BucketArchive {
    /// The archive in this bucket. Errors are the cause and what to do.
    pub(crate) fn open(
        url: &BucketUrl,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<BucketArchive, String> {
        let builder = builder_of(url, variables);
        let server = server_of(&builder)?;
        check_keys(&builder)?;
        let authorities = match authorities(&[]) {
            // A machine without certificate authorities can use a server without TLS.
            Err(_) if server.starts_with("http://") => RootCertStore::empty(),
            found => found.map_err(|error| error.to_string())?,
        };
        let tls = tls_config(authorities).map_err(|error| error.to_string())?;
        let store =
            builder.with_bucket_name(&url.bucket).with_http_connector(Connector::new(tls)).build().map_err(
                |error| format!("{error}; correct the environment variables that begin with AWS_"),
            )?;
        Ok(BucketArchive {
            store,
            bucket: url.bucket.clone(),
            folder: Path::from(url.folder.as_str()),
            server,
        })
    }

    /// Fails if there are no credentials. They are cached until they expire.
    async fn check_credentials(&self) -> Result<(), String> {
        let credentials = self.store.credentials().get_credential().await;
        credentials.map_err(|error| {
            format!(
                "no credentials: {}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where AWS provides credentials",
                why(&error, &self.bucket, "the server of the credentials")
            )
        })?;
        Ok(())
    }

    fn path(&self, file: &str) -> Path {
        self.folder.parts().chain(Path::from(file).parts()).collect()
    }

    fn why(&self, error: &object_store::Error) -> String {
        why(error, &self.bucket, &self.server)
    }
}

/// The settings of the environment, and those of the URL, which have precedence.
fn builder_of(url: &BucketUrl, variables: impl IntoIterator<Item = (String, String)>) -> AmazonS3Builder {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(2),
        base: 2.0,
    };
    let retry = RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRY_FOR };
    let mut builder = AmazonS3Builder::new().with_retry(retry).with_client_options(transport::options());
    for (name, value) in variables {
        let key = name.starts_with("AWS_").then(|| name.to_ascii_lowercase().parse());
        if let Some(Ok(key)) = key
            && !value.is_empty()
        {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(region) = &url.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &url.endpoint {
        // The object store prefers this key, which is also that of `AWS_ENDPOINT_URL_S3`, to the general one.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    builder
}

/// The server, for messages; refuses settings that name none.
fn server_of(builder: &AmazonS3Builder) -> Result<String, String> {
    let set = |key| builder.get_config_value(&key);
    if let Some(endpoint) = set(AmazonS3ConfigKey::S3Endpoint).or(set(AmazonS3ConfigKey::Endpoint)) {
        self::url::check_endpoint(&endpoint)
            .map_err(|why| format!("{why}; correct its parameter endpoint, or AWS_ENDPOINT_URL"))?;
        return Ok(endpoint);
    }
    match set(AmazonS3ConfigKey::Region) {
        Some(region) => Ok(format!("Amazon S3 in {region}")),
        None => Err("it has no region; add ?region=eu-central-1 or set AWS_REGION".to_owned()),
    }
}

fn check_keys(builder: &AmazonS3Builder) -> Result<(), String> {
    let is_set = |key| builder.get_config_value(&key).is_some();
    if is_set(AmazonS3ConfigKey::AccessKeyId) == is_set(AmazonS3ConfigKey::SecretAccessKey) {
        Ok(())
    } else {
        Err("only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set; set both".to_owned())
    }
}

#[async_trait]
impl Files for BucketArchive {
    async fn put(&self, file: &str, bytes: Vec<u8>) -> Result<(), String> {
        self.check_credentials().await?;
        let stored = self.store.put(&self.path(file), bytes.into()).await;
        stored.map_err(|error| self.why(&error))?;
        Ok(())
    }

    async fn get(&self, file: &str) -> Result<Option<Vec<u8>>, String> {
        self.check_credentials().await?;
        let found = match self.store.get(&self.path(file)).await {
            Ok(found) => found,
            // Only this code: a page that is not found says nothing about the file.
            Err(error) if code(&error.to_string()) == Some("NoSuchKey") => return Ok(None),
            Err(error) => return Err(self.why(&error)),
        };
        let bytes = found.bytes().await.map_err(|error| self.why(&error))?;
        Ok(Some(bytes.into()))
    }

    async fn delete(&self, file: &str) -> Result<(), String> {
        self.check_credentials().await?;
        match self.store.delete(&self.path(file)).await {
            Ok(()) => Ok(()),
            Err(error) if code(&error.to_string()) == Some("NoSuchKey") => Ok(()),
            Err(error) => Err(self.why(&error)),
        }
    }
}

#[async_trait]
impl ArchiveStorage for BucketArchive {
    async fn write(&self, name: &str, content: &[u8]) -> Result<WrittenFile, ArchiveStorageError> {
        content::write(self, name, content).await
    }

    async fn read(&self, name: &str, sha256: &str) -> Result<Vec<u8>, ArchiveStorageError> {
        content::read(self, name, sha256).await
    }

    async fn remove(&self, name: &str) -> Result<(), ArchiveStorageError> {
        content::remove(self, name).await
    }
}
