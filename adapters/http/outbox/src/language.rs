//! Language negotiation (`Accept-Language`, RFC 9110 §12.5.4).

use axum::http::HeaderMap;
use axum::http::header::ACCEPT_LANGUAGE;

/// Languages of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `en`.
    English,
    /// `zh`.
    Chinese,
}

impl Language {
    /// The supported language with the greatest weight; the first of equal weights; English by default.
    pub(crate) fn of(headers: &HeaderMap) -> Language {
        let mut best = (Language::English, 0.0);
        for header in headers.get_all(ACCEPT_LANGUAGE) {
            for range in header.to_str().unwrap_or_default().split(',') {
                let mut parts = range.split(';');
                let Some(language) = parts.next().and_then(|tag| Language::named(tag.trim())) else {
                    continue;
                };
                let weight = parts
                    .find_map(|part| part.trim().strip_prefix("q="))
                    .map_or(Some(1.0), |q| q.parse().ok());
                if let Some(weight) = weight.filter(|weight: &f32| *weight > best.1) {
                    best = (language, weight);
                }
            }
        }
        best.0
    }

    fn named(tag: &str) -> Option<Language> {
        let primary = tag.split('-').next().unwrap_or(tag);
        if primary.eq_ignore_ascii_case("zh") {
            Some(Language::Chinese)
        } else if primary.eq_ignore_ascii_case("en") || primary == "*" {
            Some(Language::English)
        } else {
            None
        }
    }
}
