//! What must not get out, planted, and looked for wherever a running program writes: its log, its standard output, its
//! arguments, its metrics, its database, and whatever the servers beside it keep. [`crate::process::Server`] and
//! [`crate::deployment::Deployment`] look at the end of every test.

use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use memchr::memmem;

/// What a buyer or seller writes where a test writes for one: no log and no metric may show it.
pub const PERSONAL: &str = "Canary-Lane-17-Springfield";

/// The shortest secret that is looked for: a shorter one could be there by chance.
const LEAST_CHARS: usize = 16;

/// What was planted.
#[derive(Debug, Clone, Default)]
pub struct Canaries {
    secrets: Vec<(String, String)>,
    people: Vec<(String, String)>,
}

/// A canary and where it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// What got out.
    pub what: String,
    /// Where it was seen.
    pub place: String,
    /// The end of what stands before it.
    pub before: String,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is in {}, after {:?}", self.what, self.place, self.before)
    }
}

impl Canaries {
    /// Those that everybody plants: tokens, and what people write.
    pub fn standard() -> Canaries {
        let mut canaries = Canaries::default();
        // How every token of ours begins, whichever order its header is written in: {"typ":"JWT" and {"alg":"HS256".
        for beginning in ["eyJ0eXAiOiJKV1Qi", "eyJhbGciOiJIUzI1NiIs"] {
            canaries.secret("a bearer token", beginning);
        }
        let people = [PERSONAL, "\"buyerId\"", "\"sellerId\"", "\\\"buyerId\\\""];
        canaries.people = people.map(|text| ("personal data".to_owned(), text.to_owned())).into();
        canaries
    }

    /// Plants a secret, if it is long enough to be told from anything else.
    pub fn secret(&mut self, what: &str, text: &str) {
        if text.len() >= LEAST_CHARS {
            self.secrets.push((what.to_owned(), text.to_owned()));
        }
    }

    /// Plants the password of a URL, if it has one.
    pub fn password_of(&mut self, what: &str, url: &str) {
        let user = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(user, _)| user);
        if let Some((_, password)) = user.and_then(|user| user.split_once(':')) {
            self.secret(what, password);
        }
    }

    /// What of it is in a text that anybody who watches may read.
    pub fn in_text(&self, place: &str, text: &str) -> Vec<Leak> {
        found(self.secrets.iter().chain(&self.people), place, text)
    }

    /// Which secrets are in an answer to whoever may see orders.
    pub fn in_answer(&self, place: &str, text: &str) -> Vec<Leak> {
        found(self.secrets.iter(), place, text)
    }

    /// Which secrets are in a file that keeps orders: those who trade are in it by right.
    pub fn in_database(&self, file: &Path) -> Vec<Leak> {
        let Ok(bytes) = std::fs::read(file) else { return Vec::new() };
        let leak = |(what, canary): &(String, String)| {
            let start = memmem::find(&bytes, canary.as_bytes())?;
            let before = String::from_utf8_lossy(&bytes[start.saturating_sub(80)..start]).into_owned();
            Some(Leak { what: what.clone(), place: file.display().to_string(), before })
        };
        self.secrets.iter().filter_map(leak).collect()
    }

    /// Which secrets are in the files of a server, its tables, queues and logs, as far as they were written since then.
    pub fn in_server(&self, folder: &Path, since: SystemTime) -> Vec<Leak> {
        // Files come and go while a server runs.
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let mut leaks = Vec::new();
        for entry in entries.flatten() {
            let Ok(told) = entry.metadata() else { continue };
            if told.is_dir() {
                leaks.extend(self.in_server(&entry.path(), since));
            } else if told.is_file() && told.modified().is_ok_and(|modified| modified >= since) {
                leaks.extend(self.in_database(&entry.path()));
            }
        }
        leaks
    }
}

/// Nothing got out.
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
