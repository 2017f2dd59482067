//! Addresses of the HTTP API: `[http]`.

use std::net::SocketAddr;

use crate::config::{Checked, ConfigError, Item, Kind, Reader};

/// The key of the API's address, which the flag `--listen` sets.
pub const LISTEN: &str = "http.listen";
/// The default of [`LISTEN`].
pub const LISTEN_DEFAULT: &str = "127.0.0.1:8080";
const OPS_LISTEN: &str = "http.ops-listen";

/// Reads `http.listen`.
pub fn listen(reader: &Reader<'_>) -> Checked<SocketAddr> {
    reader.key(Kind::Text, LISTEN, LISTEN_DEFAULT, address)
}

/// Reads `http.ops-listen`; `listen` is the value of `http.listen`.
pub fn ops_listen(reader: &Reader<'_>, listen: Checked<SocketAddr>) -> Checked<Option<SocketAddr>> {
    let ops_listen = reader.optional(Kind::Text, OPS_LISTEN, address)?;
    if ops_listen.is_some_and(|ops_listen| ops_listen.port() != 0 && listen == Ok(ops_listen)) {
        let item = reader.item(OPS_LISTEN);
        let error =
            item.refused("it is the same address as http.listen", "set another port, or remove the key");
        return Err(reader.report(error.related_to(&[LISTEN])));
    }
    Ok(ops_listen)
}

fn address(item: &Item) -> Result<SocketAddr, ConfigError> {
    item.as_text()?.parse().map_err(|_| {
        item.refused(
            "it is not an address with a port",
            "write 127.0.0.1:8080, [::1]:8080, or port 0 for any free port",
        )
    })
}
