//! Random numbers of the operating system.

use std::sync::atomic::{AtomicU64, Ordering};

use handover_outbox::ports::RandomSource;

/// The operating system could not provide random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system could not provide random bytes: {0}")]
pub struct EntropyError(#[from] getrandom::Error);

/// Returns random bytes for a secret, directly from the operating system.
pub fn secret_bytes<const N: usize>() -> Result<[u8; N], EntropyError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Random numbers for jitter and event ids: SplitMix64 (Steele, Lea, Flood 2014), seeded by the operating system. Each number
/// costs one atomic addition, without a lock or system call. Not for secrets; use [`secret_bytes`] instead.
#[derive(Debug)]
pub struct OsRandom {
    state: AtomicU64,
}

impl OsRandom {
    /// Creates a generator with a new seed from the operating system.
    pub fn seeded() -> Result<OsRandom, EntropyError> {
        Ok(OsRandom { state: AtomicU64::new(u64::from_ne_bytes(secret_bytes()?)) })
    }
}

impl RandomSource for OsRandom {
    fn next(&self) -> u64 {
        const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut mixed = self.state.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
