//! Causes of failed requests, for operators.

use std::error::Error;

use object_store::client::HttpError;

/// Maximum number of characters of a response without an error code, for instance of a proxy.
const MAX_EXCERPT: usize = 300;

/// The cause, and what to do.
pub(super) fn why(error: &object_store::Error, bucket: &str, server: &str) -> String {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if let Some(unanswered) = cause.downcast_ref::<HttpError>() {
            let why = unanswered.source().map_or_else(String::new, ToString::to_string);
            return format!("{server} does not respond: {why}; check its address and the network");
        }
        next = cause.source();
    }
    let text = error.to_string();
    let Some(code) = code(&text) else {
        return format!("{server}: {}", text.chars().take(MAX_EXCERPT).collect::<String>());
    };
    let message = element(&text, "Message").unwrap_or_default();
    match code {
        "NoSuchBucket" => format!("the bucket {bucket} does not exist at {server}; create it"),
        "AccessDenied" | "AllAccessDisabled" => format!(
            "{server} denies access ({message}); allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket for the bucket {bucket}"
        ),
        "ExpiredToken"
        | "InvalidAccessKeyId"
        | "InvalidToken"
        | "SignatureDoesNotMatch"
        | "TokenRefreshRequired" => format!(
            "{server} refuses the credentials ({code}); check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
        ),
        _ => format!("{server}: {code}: {message}"),
    }
}

/// The error code of S3 in the text of an error.
pub(super) fn code(text: &str) -> Option<&str> {
    element(text, "Code")
}

fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    Some(value)
}
