//! The likeliest mistakes of a user, as programs that do not compile. The compiler's message contains the rule of this crate
//! and the remedy.
//!
//! Each file in `mistakes/` is the end of a program; its first lines are the texts that the message must contain. The
//! compiler runs with the libraries of which this test was built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

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
    let check = |file: &PathBuf| libraries.check(file).map_err(|error| error.to_string());
    let failures: Vec<String> = std::thread::scope(|scope| {
        let parts = files.chunks(files.len().div_ceil(COMPILERS));
        let running: Vec<_> = parts
            .map(|part| {
                scope.spawn(move || part.iter().filter_map(|file| check(file).err()).collect::<Vec<_>>())
            })
            .collect();
        running.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// The libraries of which this test was built.
struct Libraries {
    folder: PathBuf,
    /// For each crate that the programs name, its library.
    externs: Vec<(&'static str, PathBuf)>,
}

impl Libraries {
    fn find() -> Result<Libraries, Box<dyn std::error::Error>> {
        let program = env::current_exe()?;
        let folder = program.parent().ok_or("the test program is in no folder")?.to_path_buf();
        let facade = candidates(&folder, "handover")?.pop().ok_or("the crate handover was not built")?;
        // A library contains the hashes in the file names of the libraries that it was built with.
        let contents = fs::read(&facade)?;
        let mut externs = vec![("handover", facade)];
        for name in ["serde", "sqlx", "tokio"] {
            let used = candidates(&folder, name)?.into_iter().find(|library| {
                let hash = library.file_stem().and_then(|stem| stem.to_str()?.rsplit_once('-'));
                hash.is_some_and(|(_, hash)| contains(&contents, hash.as_bytes()))
            });
            externs.push((name, used.ok_or_else(|| format!("handover was not built with {name}"))?));
        }
        Ok(Libraries { folder, externs })
    }

    /// Compiles one program. The error says which text is missing in the compiler's message.
    fn check(&self, file: &Path) -> TestResult {
        let source = fs::read_to_string(file)?;
        let name = file.file_stem().and_then(|name| name.to_str()).ok_or("a file has a name")?;
        let folder = tempfile::tempdir()?;
        let program = folder.path().join("program.rs");
        fs::write(&program, format!("{BEGINNING}\n{source}"))?;
        let mut compiler = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        compiler.args(["--edition=2024", "--emit=metadata", "--color=never", "--out-dir"]).arg(folder.path());
        compiler.arg("-L").arg(format!("dependency={}", self.folder.display()));
        for (name, library) in &self.externs {
            compiler.arg("--extern").arg(format!("{name}={}", library.display()));
        }
        let output = compiler.arg(&program).output()?;
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
}

/// The libraries of a crate, the newest last.
fn candidates(folder: &Path, name: &str) -> Result<Vec<PathBuf>, std::io::Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if file.starts_with(&format!("lib{name}-")) && file.ends_with(".rlib") {
            found.push((fs::metadata(&path)?.modified()?, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
