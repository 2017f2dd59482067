//! The likeliest mistakes of a user, as programs that do not compile. The compiler's message contains the rule of this crate
//! and the remedy.
//!
//! Each file in `mistakes/` is the end of a program; its first lines are the texts that the message must contain.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compiler::Libraries;
use crate::library::TestResult;

/// The beginning of each program.
const BEGINNING: &str = r#"
    #![allow(unused)]
    use handover::{Data, Event, Outbox, at_least_once, in_transaction};
    use serde::{Deserialize, Serialize};
    use sqlx::{Sqlite, SqliteConnection, SqlitePool};

    #[derive(Serialize, Deserialize, Event)]
    #[event(name = "book.lent", aggregate = "book")]
    struct BookLent { #[event(key)] book: i64, reader: String }

    fn main() {}
"#;

/// Number of compilers that run at the same time.
const COMPILERS: usize = 2;

#[test]
fn compiler_names_the_rule_and_the_remedy() -> TestResult {
    let libraries = Libraries::find()?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/facade/mistakes");
    let files: Result<Vec<PathBuf>, _> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files = files?;
    files.sort();
    assert!(files.len() > 15, "{files:?}");
    let checked = |file: &PathBuf| check(&libraries, file).map_err(|error| error.to_string());
    let failures: Vec<String> = std::thread::scope(|scope| {
        let parts = files.chunks(files.len().div_ceil(COMPILERS));
        let running: Vec<_> = parts
            .map(|part| {
                scope.spawn(move || part.iter().filter_map(|file| checked(file).err()).collect::<Vec<_>>())
            })
            .collect();
        running.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// Compiles one program. The error says which text is missing in the compiler's message.
fn check(libraries: &Libraries, file: &Path) -> TestResult {
    let source = fs::read_to_string(file)?;
    let name = file.file_stem().and_then(|name| name.to_str()).ok_or("a file has a name")?;
    let folder = tempfile::tempdir()?;
    let output = libraries.compile(&format!("{BEGINNING}\n{source}"), folder.path(), false)?;
    let message = String::from_utf8_lossy(&output.stderr);
    if output.status.success() != (name == "correct") {
        return Err(format!("{name}: the compiler ended with {}:\n{message}", output.status).into());
    }
    for text in source.lines().filter_map(|line| line.strip_prefix("// Says: ")) {
        if !message.contains(text) {
            return Err(format!("{name}: the message does not contain {text:?}:\n{message}").into());
        }
    }
    Ok(())
}
