//! `s3://bucket/folder?region=...&endpoint=...`

use std::fmt;

use url::Url;

/// A bucket, the folder in it that is the archive, and the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketUrl {
    pub(super) bucket: String,
    /// Empty for the whole bucket.
    pub(super) folder: String,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
}

impl BucketUrl {
    /// Errors are the cause; they do not contain the text.
    pub(crate) fn parse(text: &str) -> Result<BucketUrl, String> {
        let url = Url::parse(text).map_err(|error| format!("it is no URL: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            let why =
                "credentials in a URL would appear in logs; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
            return Err(why.to_owned());
        }
        let bucket = url.host_str().unwrap_or_default().to_owned();
        let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(is_allowed) || url.port().is_some() {
            let why =
                "the name of a bucket consists of 3 to 63 characters of a to z, digits, hyphens and dots";
            return Err(why.to_owned());
        }
        let folder = url.path().trim_matches('/').to_owned();
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let is_part = |part: &str| !part.is_empty() && part.bytes().all(is_allowed);
        if url.fragment().is_some() || !(folder.is_empty() || folder.split('/').all(is_part)) {
            let why =
                "the folder may consist of a to z, A to Z, digits, hyphens, underscores, dots and slashes";
            return Err(why.to_owned());
        }
        let mut parsed = BucketUrl { bucket, folder, region: None, endpoint: None };
        for (name, value) in url.query_pairs() {
            let known = match &*name {
                "region" => &mut parsed.region,
                "endpoint" => &mut parsed.endpoint,
                _ => {
                    return Err(
                        "it has an unknown parameter; the parameters are region and endpoint".to_owned()
                    );
                }
            };
            if known.replace(value.into_owned()).is_some() {
                return Err(format!("it has the parameter {name} twice"));
            }
        }
        if let Some(region) = &parsed.region
            && (region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
        {
            return Err("the region is no name such as eu-central-1".to_owned());
        }
        if let Some(endpoint) = &parsed.endpoint {
            check_endpoint(endpoint)?;
        }
        Ok(parsed)
    }
}

/// Refuses an endpoint that is no URL of a server.
pub(super) fn check_endpoint(endpoint: &str) -> Result<(), String> {
    let is_server = Url::parse(endpoint).is_ok_and(|url| {
        matches!(url.scheme(), "https" | "http")
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    });
    if is_server {
        Ok(())
    } else {
        Err("the endpoint is no URL such as https://minio.example.com:9000, without a password".to_owned())
    }
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        if !self.folder.is_empty() {
            write!(f, "/{}", self.folder)?;
        }
        let mut separator = '?';
        for (name, value) in [("region", &self.region), ("endpoint", &self.endpoint)] {
            if let Some(value) = value {
                write!(f, "{separator}{name}={value}")?;
                separator = '&';
            }
        }
        Ok(())
    }
}
