//! A small valid workspace in a temporary folder that tests modify.

use std::{fs, io, path::Path};

use tempfile::TempDir;

const CRATES: [(&str, &str, &str); 25] = [
    ("domain/events", "handover-events", "serde = '1'"),
    ("domain/macros", "handover-macros", "syn = '2'"),
    ("domain/marketplace", "marketplace-domain", "handover-events = { path = '../events' }"),
    ("application/outbox", "handover-outbox", "handover-events = { path = '../../domain/events' }"),
    (
        "application/marketplace",
        "marketplace",
        "marketplace-domain = { path = '../../domain/marketplace' }\nhandover-outbox = { path = '../outbox' }",
    ),
    (
        "adapters/memory/outbox",
        "handover-memory",
        "handover-outbox = { path = '../../../application/outbox' }",
    ),
    (
        "adapters/memory/marketplace",
        "marketplace-memory",
        "handover-memory = { path = '../outbox' }\nmarketplace = { path = '../../../application/marketplace' }",
    ),
    (
        "adapters/sql/outbox",
        "handover-sql",
        "handover-outbox = { path = '../../../application/outbox' }\nsqlx = '0.9'",
    ),
    (
        "adapters/sql/marketplace",
        "marketplace-sql",
        "handover-sql = { path = '../outbox' }\nmarketplace = { path = '../../../application/marketplace' }",
    ),
    (
        "adapters/http/outbox",
        "handover-http",
        "handover-outbox = { path = '../../../application/outbox' }\naxum = '0.8'",
    ),
    (
        "adapters/http/marketplace",
        "marketplace-http",
        "handover-http = { path = '../outbox' }\nmarketplace = { path = '../../../application/marketplace' }",
    ),
    ("adapters/egress", "handover-egress", "hyper = '1'"),
    ("adapters/webhooks", "handover-webhooks", "handover-egress = { path = '../egress' }"),
    (
        "adapters/gateway",
        "marketplace-gateway",
        "handover-egress = { path = '../egress' }\nhandover-webhooks = { path = '../webhooks' }",
    ),
    ("bootstrap/examples-library", "library", "handover-sql = { path = '../../adapters/sql/outbox' }"),
    ("bootstrap/runtime", "handover-runtime", "handover-sql = { path = '../../adapters/sql/outbox' }"),
    ("bootstrap/cli", "handover-cli", "handover-runtime = { path = '../runtime' }"),
    ("bootstrap/handover", "handover", "handover-sql = { path = '../../adapters/sql/outbox' }\nsqlx = '0.9'"),
    (
        "bootstrap/wiring",
        "marketplace-wiring",
        "marketplace-sql = { path = '../../adapters/sql/marketplace' }\naxum = '0.8'\n\
         handover-runtime = { path = '../runtime' }",
    ),
    ("bootstrap/demo", "marketplace-demo", "marketplace-wiring = { path = '../wiring' }"),
    (
        "bootstrap/service",
        "handover-service",
        "marketplace-wiring = { path = '../wiring' }\nmarketplace-demo = { path = '../demo' }",
    ),
    (
        "tests/contract/outbox",
        "handover-contract",
        "handover-outbox = { path = '../../../application/outbox' }",
    ),
    (
        "tests/contract/marketplace",
        "marketplace-contract",
        "handover-contract = { path = '../outbox' }\nmarketplace = { path = '../../../application/marketplace' }",
    ),
    ("tests/host", "handover-host", "handover-sql = { path = '../../adapters/sql/outbox' }"),
    ("tests", "handover-tests", "handover-service = { path = '../bootstrap/service' }\nreqwest = '0.13'"),
];

pub(crate) struct Fixture(TempDir);

impl Fixture {
    pub(crate) fn valid() -> io::Result<Self> {
        let fixture = Self(TempDir::new()?);
        let members: Vec<String> = CRATES.iter().map(|(folder, ..)| format!("'{folder}'")).collect();
        let manifest = format!(
            "[workspace]\nresolver = '3'\nmembers = [{}]\n\
             [workspace.dependencies]\ndatabase = {{ package = 'sqlx', version = '0.9' }}\n",
            members.join(", ")
        );
        fs::write(fixture.root().join("Cargo.toml"), manifest)?;
        for (folder, name, dependencies) in CRATES {
            fixture.add_crate(folder, name, dependencies)?;
        }
        Ok(fixture)
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    /// Name of the package in `folder`, or the folder itself if it has no package.
    pub(crate) fn package_in(folder: &str) -> &str {
        CRATES.iter().find(|(path, ..)| *path == folder).map_or(folder, |(_, name, _)| name)
    }

    pub(crate) fn add_crate(&self, folder: &str, name: &str, dependencies: &str) -> io::Result<()> {
        let folder = self.root().join(folder);
        fs::create_dir_all(folder.join("src"))?;
        fs::write(folder.join("src/lib.rs"), "")?;
        fs::write(folder.join("README.md"), "")?;
        fs::write(
            folder.join("Cargo.toml"),
            format!(
                "[package]\nname = '{name}'\nversion = '0.1.0'\nedition = '2024'\n[dependencies]\n{dependencies}\n"
            ),
        )
    }

    /// Appends lines to the manifest in `folder`.
    pub(crate) fn append(&self, folder: &str, lines: &str) -> io::Result<()> {
        let manifest = self.root().join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&manifest)?;
        fs::write(manifest, text + lines)
    }

    pub(crate) fn remove(&self, file: &str) -> io::Result<()> {
        fs::remove_file(self.root().join(file))
    }
}
