//! What happened in a run, for a person who looks for a cause and for the same run to be compared with itself.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Who did what when, in virtual time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Line {
    /// Since the run began.
    pub at: Duration,
    /// Who: a client, a process, the weather, the oracle.
    pub who: String,
    /// What.
    pub what: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} s  {:<12} {}", self.at.as_secs_f64(), self.who, self.what)
    }
}

/// One number for a whole story: two runs with the same number went the same way.
pub fn trace(story: &[Line]) -> u64 {
    // Its keys are fixed, so the number is the same in every process.
    let mut hasher = DefaultHasher::new();
    story.hash(&mut hasher);
    hasher.finish()
}

/// The lines that have to do with what is broken: those that name the same orders, events, payments or products, and all
/// that happened to the world around them. At most `limit`, the last ones.
pub fn about<'a>(story: &'a [Line], violations: &[String], limit: usize) -> Vec<&'a Line> {
    let names: Vec<&str> = violations.iter().flat_map(|what| names(what)).collect();
    let concerns = |line: &&Line| {
        matches!(line.who.as_str(), "world" | "weather" | "oracle")
            || line.what.starts_with("dies")
            || names.iter().any(|name| line.what.contains(name))
    };
    let lines: Vec<&Line> = story.iter().filter(concerns).collect();
    let skipped = lines.len().saturating_sub(limit);
    lines.into_iter().skip(skipped).collect()
}

/// What a violation names: event ids, and things with their numbers as in "order 7".
fn names(violation: &str) -> Vec<&str> {
    let is_id = |word: &&str| word.len() == 36 && word.matches('-').count() == 4;
    let word = |c: char| !c.is_alphanumeric() && c != '-';
    let mut names: Vec<&str> = violation.split(word).filter(is_id).collect();
    for kind in ["order ", "product ", "payment ", "refund ", "coupon "] {
        for (at, _) in violation.match_indices(kind) {
            let number = violation[at + kind.len()..].find(|c: char| !c.is_ascii_digit());
            let end = number.map_or(violation.len(), |len| at + kind.len() + len);
            if end > at + kind.len() {
                names.push(&violation[at..end]);
            }
        }
    }
    names
}
