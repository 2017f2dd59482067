//! Embeds the migrations: writes a list of each engine's files for `src/engine/migrations.rs` to include.
//!
//! Not by the driver's macro: for that, it and the drivers are compiled a second time, to run in the compiler.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let migrations = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../../migrations");
    println!("cargo:rerun-if-changed={}", migrations.display());
    let mut lists = String::new();
    for (list, engine) in
        [("SQLITE_FILES", "sqlite"), ("MYSQL_FILES", "mysql"), ("POSTGRES_FILES", "postgres")]
    {
        writeln!(
            lists,
            "#[allow(dead_code, reason = \"an engine may be left out\")]\nconst {list}: &[File] = &["
        )?;
        let files = fs::read_dir(migrations.join(engine))?.map(|entry| entry.map(|entry| entry.path()));
        let mut files: Vec<PathBuf> = files.collect::<Result<_, _>>()?;
        files.sort();
        for file in files {
            let (version, description) = named(&file)
                .ok_or_else(|| format!("{}: not named like 0009_what_it_does.sql", file.display()))?;
            writeln!(lists, "    ({version}, {description:?}, include_str!({file:?})),")?;
        }
        lists.push_str("];\n");
    }
    Ok(fs::write(Path::new(&env::var("OUT_DIR")?).join("migrations.rs"), lists)?)
}

/// Version and description, as the driver reads them from the name of a file.
fn named(file: &Path) -> Option<(i64, String)> {
    let (version, description) = file.file_name()?.to_str()?.strip_suffix(".sql")?.split_once('_')?;
    let words = !description.is_empty() && !description.contains('.');
    Some((version.parse().ok().filter(|_| words)?, description.replace('_', " ")))
}
