//! What an answer of the gateway means.

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use hyper::{Response, StatusCode};
use marketplace::ports::GatewayError;

/// How much of a body is read: enough for a reason, however much follows.
const READ_BYTES: usize = 1024;
/// How much of that is told.
const TOLD_CHARS: usize = 200;

/// What became of one try.
#[derive(Debug)]
pub(crate) enum Tried {
    /// The gateway has the request.
    Taken,
    /// It may help to ask again at once.
    AtOnce(GatewayError),
    /// That is for later, or for a person.
    Over(GatewayError),
}

/// What this status means, with what the gateway said about it.
pub(crate) fn judged(status: StatusCode, said: &str) -> Tried {
    let told = match said {
        "" => status.to_string(),
        said => format!("{status}: {said}"),
    };
    match status.as_u16() {
        200..=299 => Tried::Taken,
        // Too late, too early, too often: the request itself is good.
        408 | 425 | 429 => Tried::Over(GatewayError::Unavailable(told)),
        500..=599 => Tried::AtOnce(GatewayError::Unavailable(told)),
        // Whoever follows a redirect asks a stranger for money, with a signature.
        300..=399 => Tried::Over(GatewayError::Refused(format!("{told}; a redirect is not followed"))),
        _ => Tried::Over(GatewayError::Refused(told)),
    }
}

/// The beginning of what the gateway says, in one line. The rest is not read.
pub(crate) async fn excerpt<B>(answer: Response<B>, said: &mut String)
where
    B: Body<Data = Bytes> + Unpin,
{
    let (mut body, mut read) = (answer.into_body(), Vec::new());
    while read.len() < READ_BYTES {
        let Some(Ok(frame)) = body.frame().await else { break };
        if let Some(data) = frame.data_ref() {
            read.extend_from_slice(&data[..data.len().min(READ_BYTES - read.len())]);
            *said = one_line(&read);
        }
    }
}

/// Text as it may stand in a log: strangers' line breaks and escapes are blanks.
fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    words.join(" ").chars().take(TOLD_CHARS).collect()
}
