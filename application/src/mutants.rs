//! Planted faults, by which the simulator is measured: what it does not find when it is there, it would not find.
//!
//! Each is one condition at the place that keeps a promise, and a mistake that a developer could make there. At most one
//! is planted at a time, per thread: a simulated run has a thread of its own. Without the feature `mutants` there is no
//! way to plant any, [`planted`] is `false` at compile time, and nothing of them is in the program.
//!
//! Adding one: a variant with its promise and what an observer sees when it is broken, and `planted` as the *last* part
//! of a condition, so that `struck` counts as little as possible that makes no difference. One that is planted nowhere is a warning of
//! the compiler.
#![cfg_attr(not(feature = "mutants"), expect(unreachable_pub, reason = "public with the feature alone"))]

use crate::ports::{Confirmed, Message, OutboxRow, Outgoing, PublishOutcome};

/// Declares the mutants with their names.
macro_rules! mutants {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)+) => {
        /// A planted fault: which promise it breaks, and what an observer must see.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Mutant {
            $($(#[$doc])* $variant,)+
        }

        #[cfg(feature = "mutants")]
        impl Mutant {
            /// Every mutant.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$variant),+];

            /// Its name in lists and on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Mutant::$variant => $name,)+
                }
            }
        }
    };
}

mutants! {
    // The relay.
    /// SENT means confirmed: every published row is taken for confirmed, whatever the broker answers.
    ///
    /// Seen: an event is SENT although no broker ever confirmed it.
    MarkSentBeforeConfirm => "mark-sent-before-confirm",
    /// SENT means routed to a queue: a returned message counts as confirmed.
    ///
    /// Seen: an event is SENT although the broker returned every publish of it.
    IgnoreReturns => "ignore-returns",
    /// SENT means answered for: a publish of unknown outcome counts as confirmed.
    ///
    /// Seen: an event is SENT although no broker ever confirmed it.
    UnknownIsConfirmed => "unknown-is-confirmed",
    /// A partition is settled only by its owner: the answer of the fence is ignored.
    ///
    /// Seen: a committed unit moves rows of a partition for which its own fence did not name that partition.
    NoFence => "no-fence",
    /// Who publishes a partition holds its lease: holds are kept in memory and never renewed.
    ///
    /// Seen: a row is published by a relay that has no valid lease of its partition; a partition changes its owner
    /// although the old one beats on and never gave it back.
    LeaseNotRenewed => "lease-not-renewed",
    /// `on-failed = hold`: the relay passes over failed events under it as well.
    ///
    /// Seen: under `Hold` an event is published while an earlier ordered one of its aggregate is FAILED and not
    /// released.
    RelayIgnoresHeld => "relay-ignores-held",
    /// Publishes are bounded: failures are not added up.
    ///
    /// Seen: more charged publishes of an event than its `max_retry_count` and one, and it is not FAILED.
    PublishRetriesUnbounded => "publish-retries-unbounded",
    /// A failed publish is backed off: the next one is due at once.
    ///
    /// Seen: two charged publishes of an event lie closer together than the delay of the retry policy.
    PublishBackoffIgnored => "publish-backoff-ignored",
    /// Events of an aggregate are published in order: a window goes on past one that failed in it.
    ///
    /// Seen: the broker confirms an event while an earlier ordered one of its aggregate is pending and was never
    /// confirmed.
    PublishOvertakesFailed => "publish-overtakes-failed",
    /// An outage of the broker is no event's failure (`outage = wait`): it is charged all the same.
    ///
    /// Seen: `retry_count` exceeds the number of publishes that the broker returned or nacked; events are FAILED after
    /// an outage alone.
    OutageSpendsAttempts => "outage-spends-attempts",
}

/// Whether this mutant is planted on this thread.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) const fn planted(_mutant: Mutant) -> bool {
    false
}

#[cfg(feature = "mutants")]
pub(crate) use switch::planted;
#[cfg(feature = "mutants")]
pub use switch::{UnknownMutant, plant, struck};

#[cfg(feature = "mutants")]
mod switch {
    use std::cell::Cell;
    use std::fmt;
    use std::str::FromStr;

    use super::Mutant;

    thread_local! {
        static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
        static STRUCK: Cell<u64> = const { Cell::new(0) };
    }

    /// Plants a mutant on this thread, or none; whatever was planted before is gone.
    pub fn plant(mutant: Option<Mutant>) {
        PLANTED.set(mutant);
        STRUCK.set(0);
    }

    /// How often the planted mutant's branch was taken. A run in which it never was says nothing about the oracle.
    pub fn struck() -> u64 {
        STRUCK.get()
    }

    /// Whether this mutant is planted on this thread.
    pub(crate) fn planted(mutant: Mutant) -> bool {
        let is_planted = PLANTED.get() == Some(mutant);
        if is_planted {
            STRUCK.set(STRUCK.get().saturating_add(1));
        }
        is_planted
    }

    /// There is no mutant of that name.
    #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
    #[error("there is no mutant {0:?}")]
    pub struct UnknownMutant(pub String);

    impl FromStr for Mutant {
        type Err = UnknownMutant;

        fn from_str(name: &str) -> Result<Mutant, UnknownMutant> {
            let found = Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name);
            found.ok_or_else(|| UnknownMutant(name.to_owned()))
        }
    }

    impl fmt::Display for Mutant {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.name())
        }
    }
}

/// A confirm that no broker gave.
#[allow(clippy::disallowed_methods, reason = "the lie that some mutants tell")]
pub(crate) fn claimed(row: &OutboxRow) -> Option<Confirmed> {
    match Outgoing::new(row.event_id.clone(), String::new(), Message::default()).confirmed() {
        PublishOutcome::Confirmed(confirmed) => Some(confirmed),
        PublishOutcome::Returned { .. } | PublishOutcome::Nacked { .. } | PublishOutcome::Unknown { .. } => {
            None
        }
    }
}

#[cfg(all(test, feature = "mutants"))]
mod tests {
    use std::collections::BTreeSet;

    use super::{Mutant, plant, planted, struck};

    #[test]
    fn each_has_a_name_of_its_own_by_which_it_is_found() {
        let names: BTreeSet<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
        assert_eq!(names.len(), Mutant::ALL.len());
        for mutant in Mutant::ALL {
            assert_eq!(mutant.name().parse(), Ok(*mutant));
            let variant = mutant.name().replace('-', "");
            assert_eq!(variant, format!("{mutant:?}").to_lowercase());
        }
        assert!("no-such-mutant".parse::<Mutant>().is_err());
    }

    #[test]
    fn only_the_planted_one_strikes_and_only_on_its_thread() {
        plant(Some(Mutant::IgnoreReturns));
        assert!(planted(Mutant::IgnoreReturns) && !planted(Mutant::NoFence));
        let elsewhere = std::thread::spawn(|| planted(Mutant::IgnoreReturns)).join();
        assert_eq!(elsewhere.ok(), Some(false));
        assert_eq!(struck(), 1);
        plant(None);
        assert!(!planted(Mutant::IgnoreReturns));
        assert_eq!(struck(), 0);
    }
}
