//! Cryptography provider for `jsonwebtoken`: signs and verifies with HMAC-SHA256; only verifies with RS256 and Ed25519,
//! which `ring` implements. The providers that `jsonwebtoken` contains depend on the crate `rsa` or on a C library.
//!
//! **Invariant:** every other algorithm is rejected, regardless of the token's header, and a key of another type is
//! rejected too.

use hmac::{Hmac, KeyInit, Mac};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use sha2::Sha256;
use signature::{Signer, Verifier};

/// The provider of the whole process; the first [`super::Tokens`] installs it.
pub(crate) static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key: &EncodingKey| Ok(Box::new(Hs256::new(algorithm, key.as_bytes())?)),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    match (key.family(), key.kind()) {
        (AlgorithmFamily::Hmac, DecodingKeyKind::SecretOrDer(secret)) => {
            Ok(Box::new(Hs256::new(algorithm, secret)?))
        }
        (AlgorithmFamily::Rsa, DecodingKeyKind::RsaModulusExponent { n, e })
            if *algorithm == Algorithm::RS256 =>
        {
            Ok(Box::new(Rs256 { n: n.clone(), e: e.clone() }))
        }
        (AlgorithmFamily::Ed, DecodingKeyKind::SecretOrDer(key)) if *algorithm == Algorithm::EdDSA => {
            Ok(Box::new(Ed25519(key.clone())))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

struct Hs256(Hmac<Sha256>);

impl Hs256 {
    fn new(algorithm: &Algorithm, key: &[u8]) -> Result<Hs256, Error> {
        if *algorithm != Algorithm::HS256 {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        Hmac::new_from_slice(key).map(Hs256).map_err(|_| ErrorKind::InvalidKeyFormat.into())
    }

    fn mac(&self, message: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(message)
    }
}

impl Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        Ok(self.mac(message).finalize().into_bytes().to_vec())
    }
}

impl Verifier<Vec<u8>> for Hs256 {
    /// Compares the signatures in constant time.
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        self.mac(message).verify_slice(signature).map_err(|_| signature::Error::new())
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

/// RSASSA-PKCS1-v1_5 with SHA-256; modulus and exponent are big-endian.
struct Rs256 {
    n: Vec<u8>,
    e: Vec<u8>,
}

impl Verifier<Vec<u8>> for Rs256 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let key = RsaPublicKeyComponents { n: &self.n, e: &self.e };
        key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Rs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::RS256
    }
}

struct Ed25519(Vec<u8>);

impl Verifier<Vec<u8>> for Ed25519 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(message, signature).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Ed25519 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}
