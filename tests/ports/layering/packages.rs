//! The toolkit's crates can be published: nothing else of the workspace is needed to build them.

use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    path::{Component, Path, PathBuf},
};

use super::rules::{PublishedPackage, published};

/// Returns what prevents the crates of the workspace at `root` from being published, sorted.
pub(crate) fn obstacles_in(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let packages = published(root)?;
    let mut found = Vec::new();
    for PublishedPackage { name, folder, dependencies } in packages.values() {
        for (dependency, requirement) in dependencies {
            if !packages.contains_key(dependency) {
                found.push(format!("{name} is published, but its dependency {dependency} is not"));
            } else if requirement == "*" {
                found.push(format!("{name} needs a version of its dependency {dependency}"));
            }
        }
        for (file, included) in includes(&root.join(folder).join("src"))? {
            let outside = normal(&file.with_file_name("").join(&included));
            if !outside.starts_with(root.join(folder)) {
                found.push(format!("{name} includes {included}, which is outside of its package"));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The files that the sources below `folder` include, each with the source.
fn includes(folder: &Path) -> Result<Vec<(PathBuf, String)>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(includes(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            for call in ["include_str!(", "include_bytes!(", "include!("] {
                for rest in text.split(call).skip(1) {
                    if let Some(name) =
                        rest.trim_start().strip_prefix('"').and_then(|it| it.split('"').next())
                    {
                        found.push((path.clone(), name.to_owned()));
                    }
                }
            }
        }
    }
    Ok(found)
}

/// The path without `..`, as written: a symbolic link counts as its target's copy, as in a package.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts
}

/// Names of the published packages, sorted.
pub(crate) fn names(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let packages: BTreeMap<String, PublishedPackage> = published(root)?;
    Ok(packages.into_keys().collect())
}
