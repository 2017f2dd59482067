//! `config show`.

use handover_runtime::config::{ConfigError, ConfigErrors, Described, Description, Origin, Shown};
use handover_runtime::terminal::{Output, output, say, warn};
use handover_runtime::{Explanation, Failure};
use serde_json::{Value, json};

use crate::args::ConfigShowArgs;
use crate::program::Program;

/// Shows every key with its value and origin. Invalid values are shown and marked; the command then fails with all
/// configuration errors.
pub(crate) fn show<P: Program>(arguments: &ConfigShowArgs) -> Result<(), Failure> {
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
    let value = match &setting.value {
        Shown::Value { text, .. } => text.clone(),
        Shown::Hidden => "(hidden)".to_owned(),
        Shown::Generated => "(generated at the first start, stored next to the database file)".to_owned(),
        Shown::Unset => "(not set)".to_owned(),
    };
    let (from, name) = origin(&setting.origin);
    vec![setting.key.to_owned(), value, name.unwrap_or_else(|| from.to_owned())]
}

/// The type of an origin, and its name: the path, the variable or the flag.
fn origin(origin: &Origin) -> (&'static str, Option<String>) {
    match origin {
        Origin::Default => ("default", None),
        Origin::File(path) => ("file", Some(path.display().to_string())),
        Origin::Variable(name) => ("variable", Some(name.clone())),
        Origin::Flag(flag) => ("flag", Some((*flag).to_owned())),
    }
}

fn item(setting: &Described, error: Option<&ConfigError>) -> Value {
    let (from, name) = origin(&setting.origin);
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
