//! Compiles programs with the libraries of which this test was built.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// The libraries of which this test was built.
pub(crate) struct Libraries {
    folder: PathBuf,
    /// For each crate that the programs name, its library.
    externs: Vec<(&'static str, PathBuf)>,
}

impl Libraries {
    pub(crate) fn find() -> Result<Libraries, Box<dyn std::error::Error>> {
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

    /// Compiles a program in this folder, and links it if `is_linked`.
    pub(crate) fn compile(
        &self,
        program: &str,
        folder: &Path,
        is_linked: bool,
    ) -> Result<Output, std::io::Error> {
        let file = folder.join("program.rs");
        fs::write(&file, program)?;
        let mut compiler = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        compiler.args(["--edition=2024", "--color=never", "--out-dir"]).arg(folder);
        compiler.arg(if is_linked { "--emit=link" } else { "--emit=metadata" });
        compiler.arg("-L").arg(format!("dependency={}", self.folder.display()));
        for (name, library) in &self.externs {
            compiler.arg("--extern").arg(format!("{name}={}", library.display()));
        }
        compiler.arg(&file).output()
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
