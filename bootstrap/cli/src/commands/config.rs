//! `config show`.

use std::collections::BTreeMap;

use handover_outbox::operations;
use handover_outbox::operations::{RunningProcess, RunningSetting};
use handover_runtime::config::{ConfigError, ConfigErrors, Described, Description, Shown};
use handover_runtime::terminal::{Output, output, say, warn};
use handover_runtime::{Explanation, Failure};
use serde_json::{Value, json};

use crate::access::{Access, Reach};
use crate::args::ConfigShowArgs;
use crate::failure::CommandFailure;
use crate::program::Program;
use crate::session::Session;

/// Shows every key with its value and origin. Invalid values are shown and marked; the command then fails with all
/// configuration errors.
pub(crate) async fn show<P: Program>(arguments: &ConfigShowArgs) -> Result<(), Failure> {
    if arguments.running {
        return show_running::<P>(arguments).await;
    }
    let sources = arguments.common.sources(&[]);
    warn(&P::keys(), &sources);
    let description = P::describe(&sources);
    say(&match arguments.output.output {
        Output::Table => table(&description),
        Output::Json => {
            let item = |setting| item(setting, description.error_of(setting.key));
            let items: Vec<Value> = description.settings.iter().map(item).collect();
            let errors: Vec<Value> =
                description.errors.iter().flat_map(ConfigErrors::iter).map(explained).collect();
            output::json(&json!({ "items": items, "errors": errors }))
        }
    })?;
    description.errors.map_or(Ok(()), |errors| Err(errors.into()))
}

/// Shows the settings that the running processes report.
async fn show_running<P: Program>(arguments: &ConfigShowArgs) -> Result<(), Failure> {
    let session = Session::<P>::open(&arguments.common, Reach::Store).await?;
    let processes = operations::running_settings(&session.outbox, &session.operator).await;
    let processes = processes.map_err(|error| session.failed(error))?;
    session.close().await;
    if processes.is_empty() {
        return Err(CommandFailure::NotRunning {}.into());
    }
    let rows = merged(&processes);
    say(&match arguments.output.output {
        Output::Table => output::columns(&["key", "value", "from", "processes"], &rows),
        Output::Json => output::json(&json!({ "items": rows })),
    })?;
    Ok(())
}

/// One row for each setting and each of its values; `processes` names those with this value if others have another one.
fn merged(processes: &[RunningProcess]) -> Vec<Value> {
    let mut keys: Vec<&str> = Vec::new();
    let mut values: BTreeMap<&str, BTreeMap<(&str, &str), Vec<&str>>> = BTreeMap::new();
    for process in processes {
        for RunningSetting { key, value, from } in &process.settings {
            if !keys.contains(&key.as_str()) {
                keys.push(key);
            }
            values.entry(key).or_default().entry((value, from)).or_default().push(&process.process);
        }
    }
    let rows = keys.into_iter().flat_map(|key| {
        let of_key = values.remove(key).unwrap_or_default();
        of_key.into_iter().map(move |((value, from), of)| {
            let of = if of.len() == processes.len() { Vec::new() } else { of };
            json!({ "key": key, "value": value, "from": from, "processes": of })
        })
    });
    rows.collect()
}

fn table(description: &Description) -> String {
    let rows = description.settings.iter();
    if description.errors.is_none() {
        return output::table(&["key", "value", "from"], rows.map(row));
    }
    let marked = rows.map(|setting| {
        let mark = description.error_of(setting.key).map_or(String::new(), |_| "refused".to_owned());
        row(setting).into_iter().chain([mark]).collect()
    });
    output::table(&["key", "value", "from", "error"], marked)
}

fn row(setting: &Described) -> Vec<String> {
    let RunningSetting { key, value, from } = setting.as_text();
    vec![key, value, from]
}

fn item(setting: &Described, error: Option<&ConfigError>) -> Value {
    let (from, name) = setting.origin.kind_and_name();
    let (value, hidden) = match &setting.value {
        Shown::Value { json, .. } => (json.clone(), false),
        Shown::Hidden => (Value::Null, true),
        Shown::Generated | Shown::Unset => (Value::Null, false),
    };
    json!({
        "key": setting.key,
        "value": value,
        "hidden": hidden,
        "from": from,
        "name": name,
        "error": error.map(explained),
    })
}

fn explained(error: &ConfigError) -> Value {
    let Explanation { what, why, remedy } = error.explanation();
    json!({ "what": what, "why": why, "do": remedy })
}
