//! Names of environment variables, and the similarity of a mistyped name to a known one.

/// Prefix of the environment variables.
pub(super) const PREFIX: &str = "HANDOVER_";

/// Separates a section from what is below it in the name of a variable.
pub(super) const SECTION_MARK: &str = "__";

/// Variables with the prefix that are not settings: the path of the file, and the variables of the tests.
pub(super) const NON_SETTINGS: [&str; 9] = [
    "HANDOVER_CONFIG",
    "HANDOVER_BIN",
    "HANDOVER_LONG",
    "HANDOVER_SEED",
    "HANDOVER_DECODER",
    "HANDOVER_FUZZ",
    "HANDOVER_SIMULATE",
    "HANDOVER_SCHEMATHESIS",
    "HANDOVER_WRITE_GOLDEN",
];

/// `HANDOVER_SECTION__KEY`: dots become two underscores, dashes one.
pub fn variable_of(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', SECTION_MARK).replace('-', "_").to_ascii_uppercase())
}

/// The key path that a variable name corresponds to, whether or not the key exists.
pub(super) fn path_of(variable: &str) -> String {
    let name = variable.strip_prefix(PREFIX).unwrap_or(variable);
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
        .max_by(|(one, _), (two, _)| one.total_cmp(two))
        .map(|(_, candidate)| candidate)
}
