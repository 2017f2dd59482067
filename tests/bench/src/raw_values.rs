//! URLs of database and broker with their passwords, which the baseline needs to connect without the service's
//! adapters.

use handover_runtime::Failure;
use handover_runtime::config::{Configuration, Described, Origin, Shown, Sources};
use marketplace_wiring::settings::Config;

use crate::error::{BenchError, usage_error};

/// Configured values of `database.*` and `broker.*`. They contain passwords and must not be printed.
pub struct RawValues {
    pub database_url: String,
    pub database_is_default: bool,
    pub database_ca_file: Option<String>,
    pub database_connections: u32,
    pub broker_url: String,
    pub broker_ca_file: Option<String>,
}

impl RawValues {
    /// Reads the values from sources that [`Config::load`] accepted.
    pub fn read(sources: &Sources) -> Result<RawValues, BenchError> {
        let settings = Config::describe(sources).settings;
        let database_url = setting(&settings, "database.url")?;
        let broker_url = setting(&settings, "broker.url")?;
        let connections = shown(setting(&settings, "database.connections")?).and_then(|json| json.as_u64());
        Ok(RawValues {
            database_url: url(database_url, sources)?,
            database_is_default: matches!(database_url.origin, Origin::Default),
            database_ca_file: text(setting(&settings, "database.ca-file")?),
            database_connections: connections
                .and_then(|count| u32::try_from(count).ok())
                .ok_or_else(|| unreadable("database.connections"))?,
            broker_url: url(broker_url, sources)?,
            broker_ca_file: text(setting(&settings, "broker.ca-file")?),
        })
    }
}

fn setting<'a>(settings: &'a [Described], key: &'static str) -> Result<&'a Described, BenchError> {
    settings.iter().find(|setting| setting.key == key).ok_or_else(|| unreadable(key))
}

/// The value without its password; for a key that is not a URL, the complete value.
fn shown(setting: &Described) -> Option<&serde_json::Value> {
    match &setting.value {
        Shown::Value { json, .. } => Some(json),
        Shown::Hidden | Shown::Generated | Shown::Unset => None,
    }
}

fn text(setting: &Described) -> Option<String> {
    shown(setting)?.as_str().map(str::to_owned)
}

/// The URL from the source that sets it. A default has no password.
fn url(setting: &Described, sources: &Sources) -> Result<String, BenchError> {
    let found = match &setting.origin {
        Origin::Default => text(setting),
        Origin::Variable(name) => {
            let mut variables = sources.variables.iter();
            variables.find(|(variable, _)| variable == name).map(|(_, value)| value.clone())
        }
        Origin::Flag(name) => {
            let mut flags = sources.flags.iter();
            flags.find(|(flag, ..)| flag == name).map(|(.., value)| value.clone())
        }
        Origin::File(path) => {
            let content = std::fs::read_to_string(path)
                .map_err(|cause| Failure::System { what: "cannot read the configuration file", cause })?;
            let content: toml::Table = content.parse().map_err(|_| unreadable(setting.key))?;
            let section = setting.key.split_once('.');
            let value = section.and_then(|(section, name)| content.get(section)?.get(name));
            value.and_then(toml::Value::as_str).map(str::to_owned)
        }
    };
    found.ok_or_else(|| unreadable(setting.key))
}

fn unreadable(key: &str) -> BenchError {
    usage_error(format!("cannot read the value of {key}"), "set it as an environment variable")
}
