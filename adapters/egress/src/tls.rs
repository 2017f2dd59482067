//! TLS of clients: rustls with ring, and the certificate authorities of this machine.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Reason why a client cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The machine has no certificate authorities.
    #[error(
        "no certificate authorities found on this machine, so no certificate can be verified{0}; install ca-certificates"
    )]
    NoAuthorities(String),
    /// The additional authorities are no PEM certificates.
    #[error("the additional certificate authorities are invalid: {0}")]
    Authorities(String),
    /// TLS cannot be configured.
    #[error("cannot configure TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// The certificate authorities of this machine and these, which are certificates in PEM.
pub fn authorities(additional: &[u8]) -> Result<RootCertStore, SetupError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    for certificate in CertificateDer::pem_slice_iter(additional) {
        let certificate = certificate.map_err(|error| SetupError::Authorities(error.to_string()))?;
        roots.add(certificate).map_err(|error| SetupError::Authorities(error.to_string()))?;
    }
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        return Err(SetupError::NoAuthorities(why));
    }
    Ok(roots)
}

/// TLS that verifies servers with these certificate authorities.
pub fn tls_config(authorities: RootCertStore) -> Result<ClientConfig, SetupError> {
    Ok(ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(authorities)
        .with_no_client_auth())
}
