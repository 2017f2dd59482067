//! Unpredictable numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use handover_application::ports::Chance;

/// The operating system has no random numbers for us.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gave no random bytes: {0}")]
pub struct NoEntropy(#[from] getrandom::Error);

/// Bytes for a secret, straight from the operating system.
pub fn secret_bytes<const N: usize>() -> Result<[u8; N], NoEntropy> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Numbers for jitter and event ids: SplitMix64 (Steele, Lea, Flood 2014), seeded by the operating system. One atomic
/// addition each, no lock, no system call. Not for secrets: those are [`secret_bytes`].
#[derive(Debug)]
pub struct OsChance {
    state: AtomicU64,
}

impl OsChance {
    /// Seeded anew.
    pub fn seeded() -> Result<OsChance, NoEntropy> {
        Ok(OsChance { state: AtomicU64::new(u64::from_ne_bytes(secret_bytes()?)) })
    }
}

impl Chance for OsChance {
    fn next(&self) -> u64 {
        const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut mixed = self.state.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let chance = OsChance { state: AtomicU64::new(1_234_567) };
        let first: Vec<u64> = (0..3).map(|_| chance.next()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn two_seeds_differ() -> Result<(), NoEntropy> {
        assert_ne!(OsChance::seeded()?.next(), OsChance::seeded()?.next());
        assert_ne!(secret_bytes::<32>()?, secret_bytes::<32>()?);
        Ok(())
    }

    #[test]
    fn no_number_comes_twice_from_two_threads() -> Result<(), NoEntropy> {
        let chance = OsChance::seeded()?;
        let numbers = || (0..10_000).map(|_| chance.next()).collect::<Vec<_>>();
        let (mut one, two) = std::thread::scope(|scope| {
            let other = scope.spawn(numbers);
            (numbers(), other.join().unwrap())
        });
        one.extend(two);
        assert_eq!(one.iter().collect::<BTreeSet<_>>().len(), one.len());
        Ok(())
    }
}
