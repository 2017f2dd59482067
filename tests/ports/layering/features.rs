//! No crate of the toolkit enables the features of `serde_json` that change how every crate of a program reads JSON, and the
//! store compiles only the databases that are asked for.

use std::{env, error::Error, path::Path, process::Command};

use super::{Outcome, root, rules::toolkit};

/// With `arbitrary_precision`, a number in an untagged, tagged or flattened type of the host is no longer an `f64`; with
/// `preserve_order`, an object of the host is written in another order.
const FORCED: [&str; 2] = ["arbitrary_precision", "preserve_order"];

#[test]
fn toolkit_forces_no_feature_of_serde_json() -> Outcome {
    let root = root();
    let mut users = 0;
    for folder in toolkit(&root)? {
        let features = features_of_serde_json(&root.join(&folder))?;
        users += usize::from(!features.is_empty());
        let forced: Vec<&String> =
            features.iter().filter(|feature| FORCED.contains(&feature.as_str())).collect();
        assert!(forced.is_empty(), "{} forces {forced:?} of serde_json on every program", folder.display());
    }
    assert!(users > 5, "only {users} crates of the toolkit use serde_json");
    Ok(())
}

#[test]
fn feature_that_a_crate_forces_is_found() -> Outcome {
    let features = features_of_serde_json(&root().join("adapters/http/marketplace"))?;
    for forced in FORCED {
        assert!(features.iter().any(|feature| feature == forced), "{features:?}");
    }
    Ok(())
}

#[test]
fn store_compiles_only_the_databases_that_are_asked_for() -> Outcome {
    let folder = root().join("adapters/sql/outbox");
    let drivers = ["sqlx-mysql", "sqlx-postgres", "sqlx-sqlite", "libsqlite3-sys"];
    for (feature, expected) in [
        ("mysql", &["sqlx-mysql"][..]),
        ("postgres", &["sqlx-postgres"]),
        ("sqlite", &["sqlx-sqlite", "libsqlite3-sys"]),
    ] {
        let tree = dependencies(&folder, &["--no-default-features", "--features", feature])?;
        let is_compiled = |driver: &&str| tree.lines().any(|line| line.starts_with(&format!("{driver} ")));
        assert_eq!(drivers.iter().copied().filter(is_compiled).collect::<Vec<_>>(), expected, "{feature}");
    }
    Ok(())
}

/// Features of `serde_json` in a build of the crate in this folder with all its features, without its tests. Empty if the
/// crate does not depend on `serde_json`.
fn features_of_serde_json(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let tree = dependencies(folder, &["--all-features"])?;
    let enabled = tree.lines().filter_map(|line| line.strip_prefix("serde_json ")?.split_once('|'));
    Ok(enabled
        .flat_map(|(_, features)| features.split(','))
        .map(|feature| feature.trim_end_matches(" (*)").to_owned())
        .collect())
}

/// The packages, with their features, in a build of the crate in this folder with these features, without its tests.
fn dependencies(folder: &Path, features: &[&str]) -> Result<String, Box<dyn Error>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "--edges=normal,build", "--prefix=none"])
        .args(features)
        .args(["--format={p}|{f}", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
