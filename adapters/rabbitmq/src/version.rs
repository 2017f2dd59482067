//! Reads the version of the server. lapin does not expose the server's properties, so a second connection reads them.

use std::fmt;

use futures_util::{AsyncReadExt, AsyncWriteExt};

use crate::error::RabbitError;
use crate::settings::{Host, RabbitSettings};
use crate::transport::dial;

/// AMQP 0-9-1.
const PROTOCOL_HEADER: &[u8] = b"AMQP\x00\x00\x09\x01";
/// The key `version` of a table, as a short string, and the type of its value: a long string.
const VERSION_KEY: &[u8] = b"\x07versionS";
/// Maximum size of the server's greeting (`connection.start`).
const MAX_GREETING_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    /// Whether the server sets a delivery limit for quorum queues by default: RabbitMQ 4.0 and later set it to 20.
    pub(crate) fn limits_deliveries(self) -> bool {
        self >= Version { major: 4, minor: 0 }
    }

    fn parse(text: &str) -> Option<Version> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        Some(Version { major: numbers.next()?.ok()?, minor: numbers.next()?.ok()? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Opens a connection to a node, reads the greeting and closes it.
pub(crate) async fn fetch(settings: &RabbitSettings, host: &Host) -> Result<Version, RabbitError> {
    let what = "the version";
    let limit = settings.connect_timeout;
    let fetching = async {
        let (mut stream, _) = dial(settings, host).await?;
        stream.write_all(PROTOCOL_HEADER).await?;
        stream.flush().await?;
        let mut greeting = Vec::new();
        let mut part = [0; 4096];
        loop {
            let read = stream.read(&mut part).await?;
            greeting.extend_from_slice(part.get(..read).unwrap_or_default());
            if let Some(version) = version_in(&greeting) {
                return Ok(version);
            }
            if read == 0 || greeting.len() > MAX_GREETING_BYTES {
                return Err(std::io::Error::other("the server's greeting contains no version").into());
            }
        }
    };
    crate::error::with_timeout(what, limit, fetching).await
}

/// Parses the version in the server's properties; `None` until the version is completely received.
fn version_in(greeting: &[u8]) -> Option<Version> {
    let at = greeting.windows(VERSION_KEY.len()).position(|window| window == VERSION_KEY)?;
    let (length, text) = greeting.get(at + VERSION_KEY.len()..)?.split_first_chunk()?;
    let text = text.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    Version::parse(std::str::from_utf8(text).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_found_once_it_is_completely_received() {
        let mut greeting =
            b"\x01\x00\x00..\x07productS\x00\x00\x00\x08RabbitMQ\x07versionS\x00\x00\x00\x06".to_vec();
        assert_eq!(version_in(&greeting), None);
        greeting.extend_from_slice(b"3.10.");
        assert_eq!(version_in(&greeting), None, "a digit is missing");
        greeting.extend_from_slice(b"8\x00more");
        assert_eq!(version_in(&greeting), Some(Version { major: 3, minor: 10 }));
    }

    #[test]
    fn deliveries_are_limited_from_version_4_0() {
        for (text, limits) in [("3.10.8", false), ("3.13.7", false), ("4.0.0-rc.1", true), ("4.2.1", true)] {
            assert_eq!(Version::parse(text).unwrap().limits_deliveries(), limits, "{text}");
        }
        assert_eq!(Version::parse("unknown"), None);
    }
}
