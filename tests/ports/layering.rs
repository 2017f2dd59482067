//! Layers of the workspace: dependencies between crates, READMEs of adapters, and the visible top level.
//!
//! Each rule is also tested with a workspace that breaks it, because a check that cannot fail proves nothing.

mod circles;
mod features;
mod fixture;
mod imports;
mod packages;
mod rules;
mod terms;
mod vocabulary;

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use fixture::Fixture;
use rules::violations_in;

type Outcome = Result<(), Box<dyn Error>>;

/// Everything visible at the top level; settings of tools are dotfiles.
const TOP_LEVEL: [&str; 9] = [
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "adapters",
    "application",
    "bootstrap",
    "domain",
    "migrations",
    "tests",
];

/// The crates that users of the toolkit depend on. A crate of the service has `publish = false`.
const PUBLISHED: [&str; 16] = [
    "handover",
    "handover-archive",
    "handover-cli",
    "handover-contract",
    "handover-egress",
    "handover-events",
    "handover-http",
    "handover-macros",
    "handover-memory",
    "handover-otlp",
    "handover-outbox",
    "handover-rabbitmq",
    "handover-runtime",
    "handover-sql",
    "handover-system",
    "handover-webhooks",
];

/// Folder, lines appended to its manifest, and the crate that it must not depend on.
const FORBIDDEN: [(&str, &str, &str); 65] = [
    ("domain/events", "marketplace-domain = { path = '../marketplace' }", "marketplace-domain"),
    ("domain/events", "tokio = '1'", "tokio"),
    ("domain/events", "syn = '2'", "syn"),
    ("domain/macros", "serde = '1'", "serde"),
    (
        "application/outbox",
        "marketplace-domain = { path = '../../domain/marketplace' }",
        "marketplace-domain",
    ),
    ("application/outbox", "marketplace = { path = '../marketplace' }", "marketplace"),
    ("application/outbox", "sqlx = '0.9'", "sqlx"),
    (
        "application/outbox",
        "[dev-dependencies]\nmarketplace-memory = { path = '../../adapters/memory/marketplace' }",
        "marketplace-memory",
    ),
    ("domain/marketplace", "handover-outbox = { path = '../../application/outbox' }", "handover-outbox"),
    ("domain/marketplace", "marketplace = { path = '../../application/marketplace' }", "marketplace"),
    ("domain/marketplace", "tokio = '1'", "tokio"),
    ("domain/marketplace", "tokio = { version = '1', optional = true }", "tokio"),
    ("domain/marketplace", "serde_json = { package = 'rand', version = '0.9' }", "rand"),
    ("domain/marketplace", "[target.'cfg(unix)'.dependencies]\nlibc = '0.2'", "libc"),
    ("domain/marketplace", "[build-dependencies]\ncc = '1'", "cc"),
    ("domain/marketplace", "[dev-dependencies]\nreqwest = '0.13'", "reqwest"),
    (
        "domain/marketplace",
        "[dev-dependencies]\nhandover-memory = { path = '../../adapters/memory/outbox' }",
        "handover-memory",
    ),
    ("application/marketplace", "handover-sql = { path = '../../adapters/sql/outbox' }", "handover-sql"),
    (
        "application/marketplace",
        "handover-memory = { path = '../../adapters/memory/outbox' }",
        "handover-memory",
    ),
    (
        "application/marketplace",
        "[dev-dependencies]\nhandover-sql = { path = '../../adapters/sql/outbox' }",
        "handover-sql",
    ),
    (
        "application/marketplace",
        "handover-service = { path = '../../bootstrap/service' }",
        "handover-service",
    ),
    ("application/marketplace", "axum = '0.8'", "axum"),
    ("application/marketplace", "hyper = '1'", "hyper"),
    ("application/marketplace", "hyper-rustls = '0.27'", "hyper-rustls"),
    ("application/marketplace", "lapin = '3'", "lapin"),
    ("application/marketplace", "redis = '1'", "redis"),
    ("application/marketplace", "reqwest = '0.13'", "reqwest"),
    ("application/marketplace", "sqlx = '0.9'", "sqlx"),
    ("application/marketplace", "tower = '0.5'", "tower"),
    ("application/marketplace", "tower-http = '0.7'", "tower-http"),
    ("application/marketplace", "database = { workspace = true }", "sqlx"),
    ("application/marketplace", "mockall = '0.15'", "mockall"),
    ("application/marketplace", "[build-dependencies]\nmockall = '0.15'", "mockall"),
    ("bootstrap/service", "mockall = { version = '0.15', optional = true }", "mockall"),
    (
        "bootstrap/service",
        "marketplace = { path = '../../application/marketplace', features = ['mocks'] }",
        "mocks of marketplace",
    ),
    (
        "tests",
        "marketplace = { path = '../application/marketplace', features = ['mocks'] }",
        "mocks of marketplace",
    ),
    ("adapters/sql/outbox", "marketplace = { path = '../../../application/marketplace' }", "marketplace"),
    ("adapters/sql/outbox", "handover-memory = { path = '../../memory/outbox' }", "handover-memory"),
    ("adapters/sql/marketplace", "handover-memory = { path = '../../memory/outbox' }", "handover-memory"),
    ("adapters/http/outbox", "marketplace = { path = '../../../application/marketplace' }", "marketplace"),
    ("adapters/http/outbox", "marketplace-http = { path = '../marketplace' }", "marketplace-http"),
    ("adapters/http/marketplace", "handover-sql = { path = '../../sql/outbox' }", "handover-sql"),
    (
        "adapters/memory/outbox",
        "[dev-dependencies]\nhandover-sql = { path = '../../sql/outbox' }",
        "handover-sql",
    ),
    ("adapters/egress", "handover-webhooks = { path = '../webhooks' }", "handover-webhooks"),
    ("adapters/webhooks", "handover-sql = { path = '../sql/outbox' }", "handover-sql"),
    ("adapters/gateway", "handover-sql = { path = '../sql/outbox' }", "handover-sql"),
    ("adapters/sql/outbox", "handover-service = { path = '../../../bootstrap/service' }", "handover-service"),
    ("adapters/sql/outbox", "handover-tests = { path = '../../../tests' }", "handover-tests"),
    ("bootstrap/runtime", "marketplace-sql = { path = '../../adapters/sql/marketplace' }", "marketplace-sql"),
    ("bootstrap/runtime", "handover-cli = { path = '../cli' }", "handover-cli"),
    ("bootstrap/handover", "marketplace-wiring = { path = '../wiring' }", "marketplace-wiring"),
    ("bootstrap/runtime", "handover = { path = '../handover' }", "handover"),
    ("bootstrap/cli", "marketplace-wiring = { path = '../wiring' }", "marketplace-wiring"),
    ("bootstrap/wiring", "handover-tests = { path = '../../tests' }", "handover-tests"),
    ("bootstrap/wiring", "marketplace-demo = { path = '../demo' }", "marketplace-demo"),
    ("bootstrap/demo", "handover-service = { path = '../service' }", "handover-service"),
    (
        "bootstrap/service",
        "handover-contract = { path = '../../tests/contract/outbox' }",
        "handover-contract",
    ),
    (
        "bootstrap/examples-library",
        "marketplace-domain = { path = '../../domain/marketplace' }",
        "marketplace-domain",
    ),
    ("bootstrap/examples-library", "handover-service = { path = '../service' }", "handover-service"),
    ("tests/contract/outbox", "marketplace = { path = '../../../application/marketplace' }", "marketplace"),
    (
        "tests/contract/outbox",
        "handover-service = { path = '../../../bootstrap/service' }",
        "handover-service",
    ),
    (
        "tests/contract/outbox",
        "handover-memory = { path = '../../../adapters/memory/outbox' }",
        "handover-memory",
    ),
    ("tests/contract/outbox", "handover-tests = { path = '../..' }", "handover-tests"),
    ("tests/contract/outbox", "redis = '1'", "redis"),
    ("tests/host", "marketplace-domain = { path = '../../domain/marketplace' }", "marketplace-domain"),
];

#[test]
fn dependencies_of_workspace_point_inwards() -> Outcome {
    let violations = violations_in(&root())?;
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    Ok(())
}

#[test]
fn visible_top_level_contains_only_listed_entries() -> Outcome {
    assert_eq!(visible(&top_level(&root())?), TOP_LEVEL);
    Ok(())
}

#[test]
fn valid_workspace_is_accepted() -> Outcome {
    assert_eq!(violations_in(Fixture::valid()?.root())?, [""; 0]);
    Ok(())
}

#[test]
fn memory_adapter_is_accepted_in_tests_outside_domain() -> Outcome {
    let fixture = Fixture::valid()?;
    fixture.append(
        "application/marketplace",
        "[dev-dependencies]\nmarketplace-memory = { path = '../../adapters/memory/marketplace' }",
    )?;
    let memory = "[dev-dependencies]\nhandover-memory = { path = '../../memory/outbox' }";
    fixture.append("adapters/sql/outbox", memory)?;
    fixture.append("domain/marketplace", "[dev-dependencies]\nproptest = '1'")?;
    assert_eq!(violations_in(fixture.root())?, [""; 0]);
    Ok(())
}

#[test]
fn mocks_are_accepted_in_dev_dependencies() -> Outcome {
    let fixture = Fixture::valid()?;
    fixture.append(
        "application/marketplace",
        "mockall = { version = '0.15', optional = true }\n[features]\nmocks = ['dep:mockall']\n\
         [dev-dependencies]\nmarketplace = { path = '.', features = ['mocks'] }",
    )?;
    let mocks = "[dev-dependencies]\nmockall = '0.15'\n\
                 marketplace = { path = '../../application/marketplace', features = ['mocks'] }";
    fixture.append("bootstrap/demo", mocks)?;
    assert_eq!(violations_in(fixture.root())?, [""; 0]);
    Ok(())
}

#[test]
fn feature_that_enables_mocks_is_rejected() -> Outcome {
    let optional = "mockall = { version = '0.15', optional = true }\n[features]\n";
    let mocks = "[features]\nmocks = []\n";
    for (lines, feature) in [
        (format!("{optional}default = ['dep:mockall']"), "default"),
        (format!("{optional}testing = ['mockall/nightly']"), "testing"),
        (format!("{optional}testing = ['mockall?/nightly', 'dep:mockall']"), "testing"),
        (format!("{mocks}default = ['mocks']"), "default"),
    ] {
        let fixture = Fixture::valid()?;
        fixture.append("application/marketplace", &lines)?;
        let expected = format!("feature {feature} of marketplace must not enable mocks");
        assert_eq!(violations_in(fixture.root())?, [expected], "after adding {lines:?}");
    }
    let fixture = Fixture::valid()?;
    let lines = "marketplace = { path = '../../application/marketplace' }\n\
                 [features]\ndefault = ['marketplace/mocks']";
    fixture.append("application/marketplace", mocks)?;
    fixture.append("bootstrap/wiring", lines)?;
    assert_eq!(
        violations_in(fixture.root())?,
        ["feature default of marketplace-wiring must not enable mocks"]
    );
    Ok(())
}

#[test]
fn forbidden_dependency_is_rejected_by_name() -> Outcome {
    for (folder, lines, named) in FORBIDDEN {
        let fixture = Fixture::valid()?;
        fixture.append(folder, lines)?;
        let expected = format!("{} must not depend on {named}", Fixture::package_in(folder));
        assert_eq!(violations_in(fixture.root())?, [expected], "after adding {lines:?} to {folder}");
    }
    Ok(())
}

#[test]
fn adapter_without_readme_is_rejected() -> Outcome {
    let fixture = Fixture::valid()?;
    fixture.remove("adapters/sql/outbox/README.md")?;
    assert_eq!(violations_in(fixture.root())?, ["handover-sql has no README.md"]);
    Ok(())
}

#[test]
fn toolkit_is_publishable() -> Outcome {
    let obstacles = packages::obstacles_in(&root())?;
    assert!(obstacles.is_empty(), "{}", obstacles.join("\n"));
    assert_eq!(packages::names(&root())?, PUBLISHED);
    Ok(())
}

#[test]
fn obstacles_to_publishing_are_named() -> Outcome {
    let fixture = Fixture::valid()?;
    let include = "const SQL: &str = include_str!(\"../../../../migrations/outbox/0001.sql\");";
    fs::write(fixture.root().join("adapters/sql/outbox/src/lib.rs"), include)?;
    let manifest = fixture.root().join("application/marketplace/Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    fs::write(&manifest, text.replace("edition = '2024'", "edition = '2024'\npublish = false"))?;
    let obstacles = packages::obstacles_in(fixture.root())?;
    for expected in [
        "handover-sql includes ../../../../migrations/outbox/0001.sql, which is outside of its package",
        "handover-sql needs a version of its dependency handover-outbox",
        "marketplace-memory is published, but its dependency marketplace is not",
    ] {
        assert!(obstacles.iter().any(|it| it == expected), "{expected}: {obstacles:#?}");
    }
    Ok(())
}

#[test]
fn crate_outside_layers_is_rejected() -> Outcome {
    let fixture = Fixture::valid()?;
    fixture.add_crate("adapters/sql/outbox/inner", "inner", "")?;
    fixture.append("adapters/sql/outbox", "inner = { path = 'inner' }")?;
    assert_eq!(
        violations_in(fixture.root())?,
        ["handover-sql must not depend on inner", "inner is in no layer: adapters/sql/outbox/inner"]
    );
    Ok(())
}

#[test]
fn unknown_top_level_entry_is_listed_and_hidden_or_generated_is_not() {
    let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(visible(&names(&["tests", "docs", "LICENSE"])), ["LICENSE", "docs", "tests"]);
    assert_eq!(visible(&names(&[".ci", "target", "handover.db", "handover.db-wal"])), [""; 0]);
}

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_path_buf()
}

/// Returns the committed files; without git, for example in an archive, all files except build results.
fn files(root: &Path) -> io::Result<Vec<String>> {
    let listed = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output();
    if let Ok(output) = listed
        && output.status.success()
        && !output.stdout.is_empty()
    {
        let files = String::from_utf8_lossy(&output.stdout).into_owned();
        return Ok(files.split_terminator('\0').map(str::to_owned).collect());
    }
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if !entry.file_type()?.is_dir() {
                files.push(path.to_string_lossy().into_owned());
            } else if entry.file_name() != "target" {
                folders.push(path);
            }
        }
    }
    Ok(files)
}

/// First path components of the committed files.
fn top_level(root: &Path) -> io::Result<Vec<String>> {
    let first = |file: &String| file.split('/').next().unwrap_or(file).to_owned();
    Ok(files(root)?.iter().map(first).collect())
}

/// The names without dotfiles and generated files, sorted and unique.
fn visible(names: &[String]) -> Vec<&str> {
    let is_generated = |name: &str| name == "target" || name.ends_with(".db") || name.contains(".db-");
    let mut names: Vec<_> = names.iter().map(String::as_str).collect();
    names.retain(|name| !name.starts_with('.') && !is_generated(name));
    names.sort_unstable();
    names.dedup();
    names
}
