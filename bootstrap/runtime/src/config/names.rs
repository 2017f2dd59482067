//! Names of environment variables, and the similarity of a mistyped name to a known one.

use crate::names::names;

/// Separates a section from what is below it in the name of a variable.
pub(super) const SECTION_MARK: &str = "__";

/// `HANDOVER_SECTION__KEY`, with the prefix of this program: dots become two underscores, dashes one.
pub fn variable_of(path: &str) -> String {
    format!("{}{}", names().prefix, path.replace('.', SECTION_MARK).replace('-', "_").to_ascii_uppercase())
}

/// The key path that a variable name corresponds to, whether or not the key exists.
pub(super) fn path_of(variable: &str) -> String {
    let name = variable.strip_prefix(names().prefix).unwrap_or(variable);
    name.replace(SECTION_MARK, ".").replace('_', "-").to_ascii_lowercase()
}

/// Whether the key is in this section or in one of its subsections.
pub(super) fn is_below(path: &str, section: &str) -> bool {
    path.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}

/// Minimum similarity of a suggestion.
const MIN_SIMILARITY: f64 = 0.6;
/// Similarity of two texts, from 0 to 1.
pub fn similarity(one: &str, two: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(one, two)
}

/// The candidate with the highest score, if the score is high enough for a suggestion.
pub fn best(
    candidates: impl Iterator<Item = &'static str>,
    score: impl Fn(&str) -> f64,
) -> Option<&'static str> {
    candidates
        .map(|candidate| (score(candidate), candidate))
        .filter(|(score, _)| *score >= MIN_SIMILARITY)
        // Of equal ones the first.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, candidate)| candidate)
}
