//! Log of a run, for debugging and for comparing two runs of the same seed.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Line {
    /// Virtual time since the beginning of the run.
    pub at: Duration,
    /// The actor: a client, a process, the environment, the oracle.
    pub who: String,
    pub what: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} s  {:<12} {}", self.at.as_secs_f64(), self.who, self.what)
    }
}

/// Hash of a log. Two runs with the same hash executed the same steps.
pub fn trace(story: &[Line]) -> u64 {
    // DefaultHasher::new() has fixed keys, so the hash is the same in every process.
    let mut hasher = DefaultHasher::new();
    story.hash(&mut hasher);
    hasher.finish()
}

/// The log lines related to violations: those that name the same objects, and all lines about crashes, the world and
/// the environment. Returns the last `limit` of them.
pub fn about<'a>(story: &'a [Line], violations: &[String], limit: usize) -> Vec<&'a Line> {
    let names: Vec<&str> = violations.iter().flat_map(|what| names(what)).collect();
    let concerns = |line: &&Line| {
        matches!(line.who.as_str(), "world" | "environment" | "oracle")
            || line.what.starts_with("crashes at")
            || names.iter().any(|name| line.what.contains(name))
    };
    let lines: Vec<&Line> = story.iter().filter(concerns).collect();
    let skipped = lines.len().saturating_sub(limit);
    lines.into_iter().skip(skipped).collect()
}

/// The objects that a violation names: event ids, and names with a number such as "order 7".
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
