//! `config show`.

use serde_json::json;

use super::say;
use crate::cli::{ConfigShowArgs, Output};
use crate::config::{Config, Described, Origin, Shown};
use crate::{Failure, output};

/// Every key, its value and where that came from.
pub(super) fn show(arguments: &ConfigShowArgs) -> Result<(), Failure> {
    let sources = arguments.common.sources(&[]);
    // What would not be accepted is not shown as if it were.
    Config::load(&sources)?;
    let settings = Config::describe(&sources)?;
    say(&match arguments.output.output {
        Output::Table => output::table(&["key", "value", "from"], settings.iter().map(row)),
        Output::Json => {
            let items: Vec<serde_json::Value> = settings.iter().map(item).collect();
            output::json(&json!({ "items": items }))
        }
    })
}

fn row(setting: &Described) -> Vec<String> {
    let value = match &setting.value {
        Shown::Value { text, .. } => text.clone(),
        Shown::Hidden => "(hidden)".to_owned(),
        Shown::Made => "(made at the first start, kept beside the database file)".to_owned(),
        Shown::Unset => "(not set)".to_owned(),
    };
    let from = match &setting.origin {
        Origin::Default => "default".to_owned(),
        Origin::File(path) => path.display().to_string(),
        Origin::Variable(name) => name.clone(),
        Origin::Flag(flag) => (*flag).to_owned(),
    };
    vec![setting.key.to_owned(), value, from]
}

fn item(setting: &Described) -> serde_json::Value {
    let (from, name) = match &setting.origin {
        Origin::Default => ("default", None),
        Origin::File(path) => ("file", Some(path.display().to_string())),
        Origin::Variable(name) => ("variable", Some(name.clone())),
        Origin::Flag(flag) => ("flag", Some((*flag).to_owned())),
    };
    let (value, hidden) = match &setting.value {
        Shown::Value { json, .. } => (json.clone(), false),
        Shown::Hidden => (serde_json::Value::Null, true),
        Shown::Made | Shown::Unset => (serde_json::Value::Null, false),
    };
    json!({ "key": setting.key, "value": value, "hidden": hidden, "from": from, "name": name })
}
