//! Planted faults: each breaks one promise of the design, and the simulator has to find it. They are wrappers of the
//! ports, so no product code knows of them.

/// A planted fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// The relay takes every publish for confirmed before the broker has answered.
    MarkSentBeforeConfirm,
    /// A message that no queue takes counts as confirmed.
    IgnoreReturns,
    /// The consume-log row is written after the effects are committed, in a unit of its own.
    DedupeOutsideTransaction,
    /// A delivery is acked when it arrives.
    AckBeforeCommit,
    /// Settlement asks nobody whether the partition is still ours.
    NoEpochCheck,
    /// The consumer does not see that earlier events are open.
    NoGate,
}

impl Mutant {
    pub const ALL: [Mutant; 6] = [
        Mutant::MarkSentBeforeConfirm,
        Mutant::IgnoreReturns,
        Mutant::DedupeOutsideTransaction,
        Mutant::AckBeforeCommit,
        Mutant::NoEpochCheck,
        Mutant::NoGate,
    ];
}
