//! Which crate may name which: domain <- application <- adapters <- bootstrap, and within domain and application the
//! marketplace its toolkit; never back.
//!
//! Reads what cargo itself makes of the manifests, so a dependency that is renamed, inherited, optional or
//! bound to one platform counts like any other.
//!
//! **Invariant:** a crate's layer follows from its folder, so a new crate cannot be forgotten here.

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

/// All that the domain may be built from: values, no async, no I/O.
const DOMAIN_MAY_USE: [&str; 5] = ["chrono", "serde", "serde_json", "thiserror", "uuid"];

/// Crates that touch the world, and with each its family (`tower` stands for `tower-http` as well).
const TOUCH_THE_WORLD: [&str; 7] = ["axum", "hyper", "lapin", "redis", "reqwest", "sqlx", "tower"];

/// The honest fake: the only adapter that tests of inner layers and of other adapters may use.
const FAKE: &str = "adapters/memory";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// Events: all that the toolkit's half of the domain is.
    Events,
    /// The rules of the marketplace.
    Domain,
    /// The outbox: the toolkit's half of the application.
    Outbox,
    /// The use cases of the marketplace.
    Application,
    Adapter,
    Bootstrap,
    /// The contract suite, which a third party runs on an adapter of its own.
    Contract,
    Tests,
}

impl Layer {
    fn of_folder(folder: &Path) -> Option<Self> {
        let parts: Vec<_> = folder.iter().map(|part| part.to_str()).collect();
        match parts.as_slice() {
            [Some("domain"), Some("events")] => Some(Self::Events),
            [Some("domain"), Some("marketplace")] => Some(Self::Domain),
            [Some("application"), Some("outbox")] => Some(Self::Outbox),
            [Some("application"), Some("marketplace")] => Some(Self::Application),
            [Some("adapters"), Some(_)] => Some(Self::Adapter),
            [Some("bootstrap")] => Some(Self::Bootstrap),
            [Some("tests"), Some("contract")] => Some(Self::Contract),
            [Some("tests")] | [Some("tests"), Some(_)] => Some(Self::Tests),
            _ => None,
        }
    }

    fn may_depend_on(self, other: Self) -> bool {
        match self {
            Self::Events => false,
            Self::Domain | Self::Outbox => other == Self::Events,
            Self::Application => matches!(other, Self::Events | Self::Domain | Self::Outbox),
            Self::Adapter | Self::Contract => {
                matches!(other, Self::Events | Self::Domain | Self::Outbox | Self::Application)
            }
            Self::Bootstrap => !matches!(other, Self::Bootstrap | Self::Contract | Self::Tests),
            Self::Tests => true,
        }
    }
}

#[derive(Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    /// The name of the package, whatever the manifest calls it.
    name: String,
    /// Nothing for a dependency of the library itself.
    kind: Option<Kind>,
    /// Set for a crate of this workspace.
    path: Option<PathBuf>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Build,
    Dev,
}

/// Every broken rule of the workspace at `root` as one sentence, sorted; empty when all hold.
pub(crate) fn broken_rules(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let workspace = read(root)?;
    let mut broken = Vec::new();
    for package in &workspace.packages {
        let folder = folder_of(package, &workspace.workspace_root)?;
        match Layer::of_folder(folder) {
            None => broken.push(format!("{} is in no layer: {}", package.name, folder.display())),
            Some(layer) => check(package, layer, &workspace.workspace_root, &mut broken),
        }
    }
    broken.sort();
    Ok(broken)
}

fn read(root: &Path) -> Result<Metadata, Box<dyn Error>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version=1", "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn folder_of<'a>(package: &'a Package, root: &Path) -> Result<&'a Path, Box<dyn Error>> {
    let folder = package.manifest_path.parent().ok_or("a manifest lies in a folder")?;
    Ok(folder.strip_prefix(root)?)
}

fn check(package: &Package, layer: Layer, root: &Path, broken: &mut Vec<String>) {
    for dependency in &package.dependencies {
        let allowed = match &dependency.path {
            Some(path) => may_use_crate(layer, dependency.kind, path.strip_prefix(root).unwrap_or(path)),
            None => may_use_library(layer, dependency.kind, &dependency.name),
        };
        if !allowed {
            broken.push(format!("{} must not depend on {}", package.name, dependency.name));
        }
    }
    if layer == Layer::Adapter && !package.manifest_path.with_file_name("README.md").is_file() {
        broken.push(format!("{} has no README.md", package.name));
    }
}

fn may_use_crate(layer: Layer, kind: Option<Kind>, folder: &Path) -> bool {
    let is_pure = matches!(layer, Layer::Events | Layer::Domain);
    let fake_in_tests = kind == Some(Kind::Dev) && folder == Path::new(FAKE) && !is_pure;
    fake_in_tests || Layer::of_folder(folder).is_some_and(|other| layer.may_depend_on(other))
}

fn may_use_library(layer: Layer, kind: Option<Kind>, name: &str) -> bool {
    match layer {
        Layer::Events | Layer::Domain if kind == Some(Kind::Dev) => !touches_the_world(name),
        Layer::Events | Layer::Domain => DOMAIN_MAY_USE.contains(&name),
        Layer::Outbox | Layer::Application | Layer::Contract => !touches_the_world(name),
        Layer::Adapter | Layer::Bootstrap | Layer::Tests => true,
    }
}

fn touches_the_world(name: &str) -> bool {
    TOUCH_THE_WORLD
        .iter()
        .any(|family| name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}
