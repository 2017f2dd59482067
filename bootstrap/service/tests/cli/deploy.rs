//! The examples in `.deploy` work with this program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use handover_runtime::config::{Configuration, Sources};
use handover_runtime::settings::BrokerChoice;
use marketplace_wiring::settings::Config;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> String {
    fs::read_to_string(root().join(".deploy").join(name)).unwrap()
}

/// The variables of one service in `compose.yaml`, with fixed secrets.
fn variables(service: &str) -> Vec<(String, String)> {
    let compose = example("compose.yaml");
    let (_, rest) = compose.split_once(&format!("\n  {service}:\n")).unwrap();
    let lines = rest.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    let pairs = lines.filter_map(|line| line.trim().split_once(": "));
    let set = |(name, value): (&str, &str)| {
        let value = match name {
            "HANDOVER_AUTH__JWT_SECRET" | "HANDOVER_WEBHOOK__KEY" => "5f".repeat(32),
            "HANDOVER_GATEWAY__SECRET" => format!("whsec_{}", "5f".repeat(32)),
            _ => value.trim_matches('"').to_owned(),
        };
        (name.to_owned(), value)
    };
    pairs.filter(|(name, _)| name.starts_with("HANDOVER_")).map(set).collect()
}

fn config(service: &str) -> Config {
    Config::load(&Sources { variables: variables(service), ..Sources::default() }).unwrap()
}

#[test]
fn compose_services_load_and_migrate_and_serve_use_different_users() {
    let migrate = config("migrate");
    let serve = config("serve");
    assert_eq!(migrate.database.to_string(), "postgres://handover_owner@postgres:5432/handover");
    assert_eq!(serve.database.to_string(), "postgres://handover@postgres:5432/handover");
    let BrokerChoice::Rabbit(rabbit) = &serve.broker else { unreachable!("{:?}", serve.broker) };
    assert!(rabbit.address().contains("handover@rabbitmq:5672"), "{}", rabbit.address());
    assert!(serve.auth.secret.is_some() && serve.gateway_secret.is_some() && serve.webhook.key.is_some());
    assert!(serve.gateway.is_chosen, "a service outside loopback configures its gateway");
}

#[test]
fn mysql_rights_cover_every_table_and_forbid_changes_of_the_audit_log() {
    let folders = ["outbox", "marketplace"].map(|part| root().join("migrations").join(part).join("mysql"));
    let migrations = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let made: BTreeSet<String> = migrations
        .flat_map(|sql| {
            let created = |line| {
                ["CREATE TABLE ", "CREATE VIEW "].iter().find_map(|verb| str::strip_prefix(line, verb))
            };
            sql.lines().filter_map(created).map(name).collect::<Vec<_>>()
        })
        .chain(["outbox_migrations", "marketplace_migrations"].map(str::to_owned))
        .collect();
    let rights = example("mysql-rights.sql");
    let grants: Vec<&str> = rights.lines().filter(|line| line.starts_with("GRANT ")).collect();
    let granted: BTreeSet<String> = grants
        .iter()
        .filter_map(|line| line.split_once("ON handover.").map(|(_, rest)| name(rest)))
        .collect();
    assert_eq!(granted, made);
    let audit = grants.iter().find(|line| line.contains("audit_log")).unwrap();
    assert!(audit.starts_with("GRANT SELECT, INSERT ON "), "{audit}");
}

fn name(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}
