//! Canaries: secrets and personal data that must not leak. [`crate::process::Server`] searches for them in the log,
//! standard output, arguments, metrics and database of a program, and [`crate::deployment::Deployment`] in the files of
//! the servers. Both search when they are dropped, unless the test has failed.

use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use memchr::memmem;

/// Text that tests use as personal data of buyers and sellers. No log and no metric may contain it.
pub const PERSONAL: &str = "Canary-Lane-17-Springfield";

/// Minimum length of a secret that is searched for. A shorter one could occur by chance.
const LEAST_CHARS: usize = 16;

/// The secrets and personal data to search for.
#[derive(Debug, Clone, Default)]
pub struct Canaries {
    secrets: Vec<(String, String)>,
    people: Vec<(String, String)>,
}

/// A canary that was found, with the place where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// Name of the canary.
    pub what: String,
    pub place: String,
    /// The last characters of the searched text before the canary.
    pub before: String,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is in {}, after the text {:?}", self.what, self.place, self.before)
    }
}

impl Canaries {
    /// The canaries of every test: tokens and personal data.
    pub fn standard() -> Canaries {
        let mut canaries = Canaries::default();
        // Every token of the service starts with one of these, depending on the order of the fields in its header:
        // {"typ":"JWT" or {"alg":"HS256".
        for beginning in ["eyJ0eXAiOiJKV1Qi", "eyJhbGciOiJIUzI1NiIs"] {
            canaries.secret("a bearer token", beginning);
        }
        let people = [PERSONAL, "\"buyerId\"", "\"sellerId\"", "\\\"buyerId\\\""];
        canaries.people = people.map(|text| ("personal data".to_owned(), text.to_owned())).into();
        canaries
    }

    /// Adds a secret. Secrets that are too short to be distinguished from other text are ignored.
    pub fn secret(&mut self, what: &str, text: &str) {
        if text.len() >= LEAST_CHARS {
            self.secrets.push((what.to_owned(), text.to_owned()));
        }
    }

    /// Adds the password of a URL, if it has one.
    pub fn password_of(&mut self, what: &str, url: &str) {
        let user = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(user, _)| user);
        if let Some((_, password)) = user.and_then(|user| user.split_once(':')) {
            self.secret(what, password);
        }
    }

    /// Searches for secrets and personal data in a text that any observer may read.
    pub fn in_text(&self, place: &str, text: &str) -> Vec<Leak> {
        found(self.secrets.iter().chain(&self.people), place, text)
    }

    /// Searches a response to a caller who may see orders. Only secrets count as a leak.
    pub fn in_answer(&self, place: &str, text: &str) -> Vec<Leak> {
        found(self.secrets.iter(), place, text)
    }

    /// Searches a database file. Orders contain personal data by design, so only secrets count as a leak.
    pub fn in_database(&self, file: &Path) -> Vec<Leak> {
        let Ok(bytes) = std::fs::read(file) else { return Vec::new() };
        let leak = |(what, canary): &(String, String)| {
            let start = memmem::find(&bytes, canary.as_bytes())?;
            let before = String::from_utf8_lossy(&bytes[start.saturating_sub(80)..start]).into_owned();
            Some(Leak { what: what.clone(), place: file.display().to_string(), before })
        };
        self.secrets.iter().filter_map(leak).collect()
    }

    /// Searches for secrets in the files of a server (tables, queues, logs) that were written at or after `since`.
    pub fn in_server(&self, folder: &Path, since: SystemTime) -> Vec<Leak> {
        // A missing file is not an error, because a running server creates and deletes files.
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let mut leaks = Vec::new();
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                leaks.extend(self.in_server(&entry.path(), since));
            } else if metadata.is_file() && metadata.modified().is_ok_and(|modified| modified >= since) {
                leaks.extend(self.in_database(&entry.path()));
            }
        }
        leaks
    }
}

/// Panics if there is any leak.
#[track_caller]
pub fn none(leaks: &[Leak]) {
    assert!(leaks.is_empty(), "{}", leaks.iter().map(|leak| format!("\n{leak}")).collect::<String>());
}

fn found<'a>(canaries: impl Iterator<Item = &'a (String, String)>, place: &str, text: &str) -> Vec<Leak> {
    let leak = |(what, canary): &(String, String)| {
        let (before, _) = text.split_once(canary.as_str())?;
        let start = before.char_indices().rev().nth(79).map_or(0, |(at, _)| at);
        Some(Leak { what: what.clone(), place: place.to_owned(), before: before[start..].to_owned() })
    };
    canaries.filter_map(leak).collect()
}
