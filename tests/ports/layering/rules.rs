//! Which crate may name which: domain <- application <- adapters <- wiring <- demo <- programs, and within a layer the marketplace's half the
//! toolkit's; never back.
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

/// All that the macros may be built from: they run in the compiler.
const MACROS_MAY_USE: [&str; 3] = ["proc-macro2", "quote", "syn"];

/// Crates that touch the world, and with each its family (`tower` stands for `tower-http` as well).
const TOUCH_THE_WORLD: [&str; 7] = ["axum", "hyper", "lapin", "redis", "reqwest", "sqlx", "tower"];

/// The honest fake: the only adapter that tests of inner layers and of other adapters may use.
const FAKE: &str = "adapters/memory";

/// The adapters of the toolkit that have no half of the marketplace beside them.
const TOOLKIT_ADAPTERS: [&str; 3] = ["otlp", "rabbitmq", "system"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Domain,
    Application,
    Adapter,
    /// The contract suite, which a third party runs on an adapter of its own.
    Contract,
    /// What puts adapters behind ports.
    Wiring,
    /// The market day on it.
    Demo,
    /// Programs.
    Program,
    Tests,
}

/// The toolkit, which knows no marketplace, and the marketplace built on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Toolkit,
    Marketplace,
}

/// Where a crate stands.
#[derive(Clone, Copy, Debug)]
struct Place<'p> {
    layer: Layer,
    half: Half,
    folder: &'p Path,
}

impl Place<'_> {
    fn of_folder(folder: &Path) -> Option<Place<'_>> {
        let parts: Option<Vec<_>> = folder.iter().map(|part| part.to_str()).collect();
        let (layer, half) = match parts?.as_slice() {
            ["domain", "events" | "macros"] => (Layer::Domain, Half::Toolkit),
            ["domain", "marketplace"] => (Layer::Domain, Half::Marketplace),
            ["application", "outbox"] => (Layer::Application, Half::Toolkit),
            ["application", "marketplace"] => (Layer::Application, Half::Marketplace),
            ["adapters", _, "outbox"] => (Layer::Adapter, Half::Toolkit),
            ["adapters", _, "marketplace"] => (Layer::Adapter, Half::Marketplace),
            ["adapters", name] if TOOLKIT_ADAPTERS.contains(name) => (Layer::Adapter, Half::Toolkit),
            ["adapters", _] => (Layer::Adapter, Half::Marketplace),
            ["tests", "contract", "outbox"] => (Layer::Contract, Half::Toolkit),
            ["tests", "contract", "marketplace"] => (Layer::Contract, Half::Marketplace),
            ["bootstrap", "examples-library"] => (Layer::Program, Half::Toolkit),
            ["bootstrap", "wiring"] => (Layer::Wiring, Half::Marketplace),
            ["bootstrap", "demo"] => (Layer::Demo, Half::Marketplace),
            ["bootstrap", "service"] => (Layer::Program, Half::Marketplace),
            ["tests"] | ["tests", _] => (Layer::Tests, Half::Marketplace),
            _ => return None,
        };
        Some(Place { layer, half, folder })
    }

    fn may_depend_on(self, other: Place<'_>) -> bool {
        if self.half == Half::Toolkit && other.half == Half::Marketplace {
            return false;
        }
        match self.layer {
            Layer::Tests => true,
            _ if self.layer == other.layer => self.is_built_on(other),
            Layer::Contract => other.layer < Layer::Adapter,
            Layer::Wiring | Layer::Demo | Layer::Program if other.layer == Layer::Contract => false,
            Layer::Domain
            | Layer::Application
            | Layer::Adapter
            | Layer::Wiring
            | Layer::Demo
            | Layer::Program => other.layer < self.layer,
        }
    }

    /// Whether the other is the toolkit's half of what this is the marketplace's half of.
    fn is_built_on(self, other: Place<'_>) -> bool {
        self.folder.ends_with("marketplace")
            && other.half == Half::Toolkit
            && self.folder.parent() == other.folder.parent()
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
        match Place::of_folder(folder) {
            None => broken.push(format!("{} is in no layer: {}", package.name, folder.display())),
            Some(place) => check(package, place, &workspace.workspace_root, &mut broken),
        }
    }
    broken.sort();
    Ok(broken)
}

/// The folders of the toolkit's crates.
pub(crate) fn toolkit(root: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let workspace = read(root)?;
    let mut folders = Vec::new();
    for package in &workspace.packages {
        let folder = folder_of(package, &workspace.workspace_root)?;
        if Place::of_folder(folder).is_some_and(|place| place.half == Half::Toolkit) {
            folders.push(folder.to_path_buf());
        }
    }
    Ok(folders)
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

fn check(package: &Package, place: Place<'_>, root: &Path, broken: &mut Vec<String>) {
    for dependency in &package.dependencies {
        let allowed = match &dependency.path {
            Some(path) => may_use_crate(place, dependency.kind, path.strip_prefix(root).unwrap_or(path)),
            None => may_use_library(place, dependency.kind, &dependency.name),
        };
        if !allowed {
            broken.push(format!("{} must not depend on {}", package.name, dependency.name));
        }
    }
    if place.layer == Layer::Adapter && !package.manifest_path.with_file_name("README.md").is_file() {
        broken.push(format!("{} has no README.md", package.name));
    }
}

fn may_use_crate(place: Place<'_>, kind: Option<Kind>, folder: &Path) -> bool {
    Place::of_folder(folder).is_some_and(|other| {
        let is_fake = other.folder.starts_with(FAKE)
            && (place.half == Half::Marketplace || other.half == Half::Toolkit);
        let fake_in_tests = kind == Some(Kind::Dev) && is_fake && place.layer != Layer::Domain;
        fake_in_tests || place.may_depend_on(other)
    })
}

fn may_use_library(place: Place<'_>, kind: Option<Kind>, name: &str) -> bool {
    match place.layer {
        Layer::Domain if kind == Some(Kind::Dev) => !touches_the_world(name),
        Layer::Domain if place.folder.ends_with("macros") => MACROS_MAY_USE.contains(&name),
        Layer::Domain => DOMAIN_MAY_USE.contains(&name),
        Layer::Application | Layer::Contract => !touches_the_world(name),
        Layer::Adapter | Layer::Wiring | Layer::Demo | Layer::Program | Layer::Tests => true,
    }
}

fn touches_the_world(name: &str) -> bool {
    TOUCH_THE_WORLD
        .iter()
        .any(|family| name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}
