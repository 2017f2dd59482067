//! Static headers of endpoints.

use hyper::header::{HeaderName, HeaderValue};

/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Maximum length of a value, in bytes.
const MAX_VALUE_BYTES: usize = 2048;

/// Headers that this service sets, that change how the request is transferred, that name its origin, or that metadata
/// services of clouds require.
const RESERVED: [&str; 22] = [
    "accept-encoding",
    "connection",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "max-forwards",
    "metadata",
    "metadata-flavor",
    "origin",
    "range",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-real-ip",
];
/// Begins of further reserved names.
const RESERVED_PREFIXES: [&str; 8] = [
    "content-",
    "handover-",
    "proxy-",
    "sec-",
    "webhook-",
    "x-aws-ec2-metadata-",
    "x-forwarded-",
    "x-google-metadata-",
];

/// Checks a static header. The error says why it is refused, without its value.
pub(crate) fn static_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    if name.len() > MAX_NAME_BYTES {
        return Err(format!(
            "the name of a header has {} bytes; at most {MAX_NAME_BYTES} are allowed",
            name.len()
        ));
    }
    let name = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("{name:?} is not the name of a header: use a to z, digits and hyphens"))?;
    let has_prefix = |prefix: &&str| name.as_str().starts_with(prefix);
    if RESERVED.contains(&name.as_str()) || RESERVED_PREFIXES.iter().any(has_prefix) {
        return Err(format!("the header {name} is reserved"));
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err(format!(
            "the value of the header {name} has {} bytes; at most {MAX_VALUE_BYTES} are allowed",
            value.len()
        ));
    }
    if value.is_empty() || value.trim() != value {
        return Err(format!("the value of the header {name} is empty, or begins or ends with a space"));
    }
    let is_visible = |byte: u8| byte == b' ' || byte == b'\t' || byte.is_ascii_graphic();
    let valid = HeaderValue::from_str(value).ok().filter(|_| value.bytes().all(is_visible));
    let mut value = valid
        .ok_or_else(|| format!("the value of the header {name} may only have visible ASCII characters"))?;
    // Its `Debug` output does not contain the value.
    value.set_sensitive(true);
    Ok((name, value))
}
