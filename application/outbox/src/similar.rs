//! The most similar of several names, for errors about a misspelled one.

/// The known name that is most similar to `name`; `None` if there is no known name.
pub(crate) fn most_similar<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let name = name.to_lowercase();
    // A name that differs only in case is the most similar one.
    let similarity = |known: &str| strsim::jaro_winkler(&known.to_lowercase(), &name);
    known.into_iter().max_by(|one, other| similarity(one).total_cmp(&similarity(other)))
}
