//! The command line, and the URLs with their passwords from each source of the configuration.

use std::fs;

use clap::CommandFactory as _;
use handover_bench::cli::BenchArgs;
use handover_bench::raw_values::RawValues;
use handover_runtime::config::{Configuration, Sources};
use marketplace_wiring::settings::Config;
use tempfile::TempDir;

const DATABASE: &str = "postgres://shop:s%3Fecret@db:5433/bench?sslmode=require";
const BROKER: &str = "amqp://shop:secret@one,two/bench?heartbeat=3";

#[test]
fn command_line_is_valid_and_every_flag_has_help() {
    let command = BenchArgs::command();
    command.clone().debug_assert();
    for flag in command.get_arguments() {
        assert!(flag.get_help().is_some(), "{}", flag.get_id());
    }
}

#[test]
fn urls_are_read_with_their_passwords_from_file_and_variables() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("handover.toml");
    let set = format!("broker = {{ url = '{BROKER}' }}\n[database]\nurl = '{DATABASE}'\nconnections = 9\n");
    fs::write(&file, set).unwrap();
    let in_file = Sources { file: Some(file), ..Sources::default() };
    let in_variables = Sources {
        variables: [
            ("HANDOVER_DATABASE__URL", DATABASE),
            ("HANDOVER_BROKER__URL", BROKER),
            ("HANDOVER_DATABASE__CONNECTIONS", "9"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        ..Sources::default()
    };
    for sources in [in_file, in_variables] {
        Config::load(&sources).unwrap();
        let values = RawValues::read(&sources).unwrap();
        assert_eq!((values.database_url.as_str(), values.broker_url.as_str()), (DATABASE, BROKER));
        assert_eq!((values.database_connections, values.database_is_default), (9, false));
        assert_eq!((values.database_ca_file, values.broker_ca_file), (None, None));
    }
}

#[test]
fn flag_overrides_variable_and_the_default_database_is_recognised() {
    let sources = Sources {
        variables: vec![("HANDOVER_BROKER__URL".to_owned(), BROKER.to_owned())],
        flags: vec![("--broker", "broker.url", "amqp://shop@mq/bench".to_owned())],
        ..Sources::default()
    };
    let values = RawValues::read(&sources).unwrap();
    assert_eq!(values.broker_url, "amqp://shop@mq/bench");
    assert_eq!((values.database_url.as_str(), values.database_is_default), ("sqlite://handover.db", true));
}
