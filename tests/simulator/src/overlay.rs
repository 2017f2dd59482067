//! Faults of the application code, stored as text outside the sources.
//!
//! Each file of `faults/` names a guarantee and replaces pieces of the sources with pieces that contain one mistake; a
//! switch activates the mistake at run time. [`apply`] writes all faults into a copy of the workspace, so that one
//! build contains every fault. The sources themselves contain no fault.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;

/// One fault: the guarantee that it violates, and the changes of the sources.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Name of the file in `faults/`, without its extension.
    #[serde(skip)]
    pub name: String,
    /// The guarantee that the fault violates.
    pub promise: String,
    /// Behaviour of the code while the fault is active.
    pub fault: String,
    /// The violation that can be observed while the fault is active.
    pub observable: String,
    /// The changed pieces of the sources.
    #[serde(rename = "change")]
    pub changes: Vec<Change>,
}

/// One replaced piece of a source file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Path from the root of the workspace.
    pub file: PathBuf,
    /// Whole lines that occur exactly once in the file.
    pub old: String,
    /// The text that replaces `old`.
    pub new: String,
}

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every fault, by name.
///
/// # Errors
/// A file of `faults/` cannot be read or does not describe a fault.
pub fn faults() -> io::Result<Vec<Fault>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("faults");
    let mut faults = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let fault: Fault = toml::from_str(&fs::read_to_string(&path)?)
                .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
            faults.push(Fault { name, ..fault });
        }
    }
    faults.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(faults)
}

/// The files of the workspace at `root` that the faults change, with every change applied.
///
/// # Errors
/// A file cannot be read, or a piece does not occur exactly once in it; the error lists all such pieces.
pub fn patched(faults: &[Fault], root: &Path) -> io::Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    let mut errors = Vec::new();
    for fault in faults {
        for change in &fault.changes {
            let text = match files.get(&change.file) {
                Some(text) => String::clone(text),
                None => fs::read_to_string(root.join(&change.file)).map_err(|error| {
                    io::Error::other(format!("{}: {}: {error}", fault.name, change.file.display()))
                })?,
            };
            match text.matches(&change.old).count() {
                1 => drop(files.insert(change.file.clone(), text.replacen(&change.old, &change.new, 1))),
                times => errors.push(format!(
                    "{}: its old text occurs {times} times in {}; update tests/simulator/faults/{}.toml:\n{}",
                    fault.name,
                    change.file.display(),
                    fault.name,
                    change.old
                )),
            }
        }
    }
    if errors.is_empty() { Ok(files) } else { Err(io::Error::other(errors.join("\n"))) }
}

/// Writes every fault and their switch into the copy of the workspace at `root`.
///
/// # Errors
/// The errors of [`patched`], or a file cannot be written.
pub fn apply(faults: &[Fault], root: &Path) -> io::Result<()> {
    for (file, text) in patched(faults, root)? {
        fs::write(root.join(file), text)?;
    }
    let sources = root.join("application/outbox/src");
    fs::write(sources.join("fault.rs"), include_str!("../faults/switch.rs"))?;
    let library = sources.join("lib.rs");
    fs::write(&library, fs::read_to_string(&library)? + "\npub mod fault;\n")
}
