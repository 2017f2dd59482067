//! Allowed dependencies between crates: domain <- application <- adapters <- runtime <- command line <- facade <- wiring <-
//! demo <- programs, and within a layer from a marketplace crate to the toolkit crates in the same folder and along [`BUILT_ON`]; never in
//! the other direction.
//!
//! The check reads `cargo metadata`, so that renamed, inherited, optional and platform-specific dependencies are
//! checked too.
//!
//! **Invariant:** the layer of a crate follows from its folder, so that a new crate is always checked.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

/// Crates that the domain may use: values only, no async and no I/O.
const DOMAIN_MAY_USE: [&str; 6] = ["chrono", "serde", "serde_json", "sha2", "thiserror", "uuid"];

/// Crates that the macros may use; macros run in the compiler.
const MACROS_MAY_USE: [&str; 3] = ["proc-macro2", "quote", "syn"];

/// Crates with I/O. Each name also stands for the names that continue it after a hyphen: `tower` for `tower-http`.
const IO_CRATES: [&str; 7] = ["axum", "hyper", "lapin", "redis", "reqwest", "sqlx", "tower"];

const MOCK_CRATE: &str = "mockall";

/// The feature of a crate that enables [`MOCK_CRATE`]. Only dev-dependencies may enable it, so that no program contains
/// mocks.
const MOCK_FEATURE: &str = "mocks";

/// The in-memory fake: the only adapter that tests of the application and of other adapters may use.
const FAKE: &str = "adapters/memory";

/// Adapters of the toolkit without a marketplace counterpart.
const TOOLKIT_ADAPTERS: [&str; 6] = ["archive", "egress", "otlp", "rabbitmq", "system", "webhooks"];

/// Adapters that send requests over HTTP, each with an adapter that it is built on.
const BUILT_ON: [(&str, &str); 4] = [
    ("adapters/archive", "adapters/egress"),
    ("adapters/webhooks", "adapters/egress"),
    ("adapters/gateway", "adapters/egress"),
    ("adapters/gateway", "adapters/webhooks"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Domain,
    Application,
    Adapter,
    /// The contract suite, which third parties run on their own adapters.
    Contract,
    /// The toolkit's settings, stores and brokers by URL, start and stop.
    Runtime,
    /// The toolkit's commands for operators.
    CommandLine,
    /// The crate that users of the toolkit add.
    Facade,
    /// The crate that connects adapters to ports.
    Wiring,
    /// The demo program, which simulates a market day.
    Demo,
    /// Executables.
    Program,
    Tests,
}

/// The two halves of the workspace: the marketplace uses the toolkit, which is independent of the marketplace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Toolkit,
    Marketplace,
}

/// Layer and folder of a crate, and whether it belongs to the toolkit or to the marketplace (its half).
#[derive(Clone, Copy, Debug)]
struct CrateLocation<'p> {
    layer: Layer,
    half: Half,
    folder: &'p Path,
}

impl CrateLocation<'_> {
    fn of_folder(folder: &Path) -> Option<CrateLocation<'_>> {
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
            ["bootstrap", "runtime"] => (Layer::Runtime, Half::Toolkit),
            ["bootstrap", "cli"] => (Layer::CommandLine, Half::Toolkit),
            ["bootstrap", "handover"] => (Layer::Facade, Half::Toolkit),
            ["bootstrap", "wiring"] => (Layer::Wiring, Half::Marketplace),
            ["bootstrap", "demo"] => (Layer::Demo, Half::Marketplace),
            ["bootstrap", "service"] => (Layer::Program, Half::Marketplace),
            ["tests", "host"] => (Layer::Tests, Half::Toolkit),
            ["tests"] | ["tests", _] => (Layer::Tests, Half::Marketplace),
            _ => return None,
        };
        Some(CrateLocation { layer, half, folder })
    }

    fn may_depend_on(self, other: CrateLocation<'_>) -> bool {
        if self.half == Half::Toolkit && other.half == Half::Marketplace {
            return false;
        }
        match self.layer {
            Layer::Tests => true,
            // The macros run in the compiler, so every crate may use them.
            _ if other.folder.ends_with("macros") => true,
            _ if self.layer == other.layer => self.is_built_on(other),
            Layer::Contract => other.layer < Layer::Adapter,
            _ if other.layer == Layer::Contract => false,
            Layer::Domain
            | Layer::Application
            | Layer::Adapter
            | Layer::Runtime
            | Layer::CommandLine
            | Layer::Facade
            | Layer::Wiring
            | Layer::Demo
            | Layer::Program => other.layer < self.layer,
        }
    }

    /// Whether `self` is a marketplace crate and `other` is the toolkit crate in the same folder, or the two are listed in
    /// [`BUILT_ON`].
    fn is_built_on(self, other: CrateLocation<'_>) -> bool {
        let is_counterpart = self.folder.ends_with("marketplace")
            && other.half == Half::Toolkit
            && self.folder.parent() == other.folder.parent();
        is_counterpart
            || BUILT_ON
                .iter()
                .any(|(upper, lower)| self.folder == Path::new(upper) && other.folder == Path::new(lower))
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
    /// Features, each with the features and dependencies that it enables.
    features: BTreeMap<String, Vec<String>>,
    /// The registries that the package may be published to; `None` means all.
    publish: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Dependency {
    /// The name of the package, not the alias in the manifest.
    name: String,
    /// `None` for a normal dependency.
    kind: Option<Kind>,
    optional: bool,
    features: Vec<String>,
    /// Required version; `*` if the manifest has none.
    req: String,
    /// Folder of the crate; set only for crates of this workspace.
    path: Option<PathBuf>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Build,
    Dev,
}

/// Returns the violations in the workspace at `root`, sorted.
pub(crate) fn violations_in(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let workspace = read(root)?;
    let mut violations = Vec::new();
    for package in &workspace.packages {
        let folder = folder_of(package, &workspace.workspace_root)?;
        match CrateLocation::of_folder(folder) {
            None => violations.push(format!("{} is in no layer: {}", package.name, folder.display())),
            Some(location) => check(package, location, &workspace.workspace_root, &mut violations),
        }
    }
    violations.sort();
    Ok(violations)
}

/// A package that is published.
pub(crate) struct PublishedPackage {
    pub(crate) name: String,
    /// Folder, relative to the workspace.
    pub(crate) folder: PathBuf,
    /// The crates of this workspace that it needs outside of tests, each with its required version.
    pub(crate) dependencies: Vec<(String, String)>,
}

/// The published packages by name.
pub(crate) fn published(root: &Path) -> Result<BTreeMap<String, PublishedPackage>, Box<dyn Error>> {
    let workspace = read(root)?;
    let mut published = BTreeMap::new();
    for package in workspace.packages.iter().filter(|package| package.publish.is_none()) {
        let of_workspace =
            package.dependencies.iter().filter(|it| it.path.is_some() && it.kind != Some(Kind::Dev));
        let entry = PublishedPackage {
            name: package.name.clone(),
            folder: folder_of(package, &workspace.workspace_root)?.to_path_buf(),
            dependencies: of_workspace.map(|it| (it.name.clone(), it.req.clone())).collect(),
        };
        published.insert(package.name.clone(), entry);
    }
    Ok(published)
}

/// The folders of the toolkit's crates.
pub(crate) fn toolkit(root: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let workspace = read(root)?;
    let mut folders = Vec::new();
    for package in &workspace.packages {
        let folder = folder_of(package, &workspace.workspace_root)?;
        if CrateLocation::of_folder(folder).is_some_and(|location| location.half == Half::Toolkit) {
            folders.push(folder.to_path_buf());
        }
    }
    Ok(folders)
}

/// The folders of the crates that are part of programs.
pub(crate) fn production(root: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let workspace = read(root)?;
    let mut folders = Vec::new();
    for package in &workspace.packages {
        let folder = folder_of(package, &workspace.workspace_root)?;
        if let Some(location) = CrateLocation::of_folder(folder)
            && !matches!(location.layer, Layer::Contract | Layer::Tests)
        {
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
    let folder = package.manifest_path.parent().ok_or("a manifest has a parent folder")?;
    Ok(folder.strip_prefix(root)?)
}

fn check(package: &Package, location: CrateLocation<'_>, root: &Path, violations: &mut Vec<String>) {
    for dependency in &package.dependencies {
        let allowed = match &dependency.path {
            Some(path) => may_use_crate(location, dependency.kind, path.strip_prefix(root).unwrap_or(path)),
            None => may_use_library(location, dependency),
        };
        if !allowed {
            violations.push(format!("{} must not depend on {}", package.name, dependency.name));
        }
        let enables_mocks = dependency.features.iter().any(|feature| is_mock(feature));
        if dependency.kind != Some(Kind::Dev) && enables_mocks {
            violations.push(format!("{} must not depend on mocks of {}", package.name, dependency.name));
        }
    }
    for (feature, enabled) in &package.features {
        if !is_mock(feature) && enabled.iter().any(|enabled| is_mock(enabled)) {
            violations.push(format!("feature {feature} of {} must not enable mocks", package.name));
        }
    }
    if location.layer == Layer::Adapter && !package.manifest_path.with_file_name("README.md").is_file() {
        violations.push(format!("{} has no README.md", package.name));
    }
}

fn may_use_crate(location: CrateLocation<'_>, kind: Option<Kind>, folder: &Path) -> bool {
    CrateLocation::of_folder(folder).is_some_and(|other| {
        let is_fake = other.folder.starts_with(FAKE)
            && (location.half == Half::Marketplace || other.half == Half::Toolkit);
        let fake_in_tests = kind == Some(Kind::Dev) && is_fake && location.layer != Layer::Domain;
        // The contract contains the fault wrappers of the ports.
        let faults_in_tests =
            kind == Some(Kind::Dev) && other.layer == Layer::Contract && location.layer == Layer::Application;
        // A crate enables its own test features through a dev-dependency on itself.
        let own_features = kind == Some(Kind::Dev) && location.folder == other.folder;
        fake_in_tests || faults_in_tests || own_features || location.may_depend_on(other)
    })
}

fn may_use_library(location: CrateLocation<'_>, dependency: &Dependency) -> bool {
    let kind = dependency.kind;
    let name = dependency.name.as_str();
    if name == MOCK_CRATE && kind != Some(Kind::Dev) {
        return location.layer == Layer::Application && kind.is_none() && dependency.optional;
    }
    match location.layer {
        Layer::Domain if kind == Some(Kind::Dev) => !is_io_crate(name),
        Layer::Domain if location.folder.ends_with("macros") => MACROS_MAY_USE.contains(&name),
        Layer::Domain => DOMAIN_MAY_USE.contains(&name),
        Layer::Application | Layer::Contract => !is_io_crate(name),
        Layer::Adapter
        | Layer::Runtime
        | Layer::CommandLine
        | Layer::Facade
        | Layer::Wiring
        | Layer::Demo
        | Layer::Program
        | Layer::Tests => true,
    }
}

/// Whether a feature enables mocks: `mocks`, `marketplace/mocks`, `dep:mockall`, `mockall/nightly`, and `mockall`,
/// which Cargo creates for an optional dependency.
fn is_mock(enabled: &str) -> bool {
    enabled.split(['/', ':', '?']).any(|part| [MOCK_FEATURE, MOCK_CRATE].contains(&part))
}

fn is_io_crate(name: &str) -> bool {
    IO_CRATES
        .iter()
        .any(|family| name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}
