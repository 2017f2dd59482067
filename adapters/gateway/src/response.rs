//! Interpretation of the gateway's responses.

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use hyper::{Response, StatusCode};
use marketplace::ports::GatewayError;

/// Maximum number of bytes read from a body; the rest is ignored.
const READ_BYTES: usize = 1024;
/// Maximum length of the reason in errors and logs.
const REASON_CHARS: usize = 200;

#[derive(Debug)]
pub(crate) enum AttemptResult {
    Accepted,
    /// The attempt failed, but an immediate retry may succeed.
    RetryNow(GatewayError),
    /// The attempt failed, and an immediate retry cannot succeed: a later request or an operator is needed.
    Final(GatewayError),
}

/// Classifies a response by its status; `reason` is the excerpt of its body.
pub(crate) fn classify(status: StatusCode, reason: &str) -> AttemptResult {
    let message = match reason {
        "" => status.to_string(),
        reason => format!("{status}: {reason}"),
    };
    match status.as_u16() {
        200..=299 => AttemptResult::Accepted,
        // 408 Request Timeout, 425 Too Early, 429 Too Many Requests: the request is valid, so a later one can succeed.
        408 | 425 | 429 => AttemptResult::Final(GatewayError::Unavailable(message)),
        500..=599 => AttemptResult::RetryNow(GatewayError::Unavailable(message)),
        // Redirects are refused: following one would send a signed refund request to another server.
        300..=399 => {
            AttemptResult::Final(GatewayError::Refused(format!("{message}; a redirect is not followed")))
        }
        _ => AttemptResult::Final(GatewayError::Refused(message)),
    }
}

/// Reads the beginning of the body into `reason`, as one line. Partial text remains if the future is dropped.
pub(crate) async fn excerpt<B>(response: Response<B>, reason: &mut String)
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut body = response.into_body();
    let mut read = Vec::new();
    while read.len() < READ_BYTES {
        let Some(Ok(frame)) = body.frame().await else { break };
        if let Some(data) = frame.data_ref() {
            read.extend_from_slice(&data[..data.len().min(READ_BYTES - read.len())]);
            *reason = one_line(&read);
        }
    }
}

/// Makes external text safe for logs: control characters and line breaks become single spaces, and the text is cut to
/// [`REASON_CHARS`].
fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    words.join(" ").chars().take(REASON_CHARS).collect()
}
