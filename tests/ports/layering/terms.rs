//! Texts and names use the terms of the field instead of private words (application/README.md, "Terms").

use std::fs;

use super::{Outcome, files, root};

/// Words to avoid. The terms to use instead are "recorded", "reported", "received", "read", "wake-up notification",
/// "dead letter", "grant", "message", "unrelated user", "repair".
const WORDS: [&str; 22] = [
    "told",
    "tell",
    "tells",
    "heard",
    "looked",
    "bell",
    "bells",
    "rung",
    "letter",
    "letters",
    "gift",
    "gifts",
    "parcel",
    "parcels",
    "stranger",
    "strangers",
    "mend",
    "mends",
    "mended",
    "mending",
    "untold",
    "sabotage",
];

const PHRASES: [&str; 6] =
    ["comes again", "begins anew", "is away", "turned away", "taken apart", "given back"];

/// Exceptions: a frozen name of an actor, and letters of an alphabet.
const ALLOWED: [&str; 3] = ["\"stranger\"", "=stranger", "capital letter"];

/// Files that are not checked: files of other authors, and this file.
const OTHERS: [&str; 3] = ["Cargo.lock", ".licenses/", "tests/ports/layering/terms.rs"];

#[test]
fn no_text_or_name_uses_a_word_that_has_a_term() -> Outcome {
    let root = root();
    let mut found = Vec::new();
    for file in files(&root)? {
        if OTHERS.iter().any(|other| file.starts_with(other)) {
            continue;
        }
        // Files that are not UTF-8, for example keys, are skipped.
        let Ok(text) = fs::read_to_string(root.join(&file)) else { continue };
        for (number, line) in (1..).zip(text.lines()) {
            found.extend(
                words_of(line).into_iter().map(|word| format!("{file}:{number}: {word}: {}", line.trim())),
            );
        }
    }
    assert!(found.is_empty(), "write the term of application/README.md instead:\n{}", found.join("\n"));
    Ok(())
}

#[test]
fn words_are_found_in_sentences_and_in_names() {
    for line in ["it was told", "fn open_letters()", "struct RefusedLetter", "the broker is away", "LETTERS"]
    {
        assert_eq!(words_of(line).len(), 1, "{line}");
    }
    for line in ["a dead letter", "DeadLetters", "dead_letters", "telling", "=stranger", "the next day"] {
        assert!(words_of(line).is_empty(), "{line}");
    }
}

/// The listed words and phrases that a line contains; identifiers are split into their parts.
fn words_of(line: &str) -> Vec<&'static str> {
    let line = ALLOWED.iter().fold(line.to_owned(), |line, allowed| line.replace(allowed, " "));
    let mut parts = String::with_capacity(line.len() + 8);
    let mut before = ' ';
    for character in line.chars() {
        if character.is_uppercase() && before.is_lowercase() {
            parts.push(' ');
        }
        parts.push(if character.is_alphabetic() { character.to_ascii_lowercase() } else { ' ' });
        before = character;
    }
    let words: Vec<&str> = parts.split_whitespace().collect();
    let text = words.join(" ").replace("dead letters", "").replace("dead letter", "");
    let is_in_text = |word: &&&str| text.split(' ').any(|other| other == **word);
    let phrases = PHRASES.iter().filter(|phrase| text.contains(**phrase));
    WORDS.iter().filter(is_in_text).chain(phrases).copied().collect()
}
