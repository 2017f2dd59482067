//! Environment variables with the prefix of this program. Some are settings; others belong to the environment, such as
//! those that Kubernetes sets in every container for a Service named `handover`.

use super::keys::{Key, Keys};
use super::names::{SECTION_MARK, path_of, variable_of};
use super::sources::Sources;
use crate::names::names;

/// Meaning of an environment variable.
pub(super) enum Variable<'a> {
    /// The variable of a key.
    Setting(&'a Key),
    /// Probably a misspelt key: its section is known, or section or key are similar to known ones.
    Misspelt {
        /// The variable with the most similar name, if one is similar enough.
        nearest: Option<String>,
    },
    /// No key: the variable is ignored with a warning.
    Ignored(IgnoredVariable),
}

/// A variable with the prefix that is not a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IgnoredVariable {
    /// The name of the variable.
    pub(super) name: String,
    /// The variable of the key with the most similar name, if one is similar enough.
    pub(super) nearest: Option<String>,
}

impl Keys {
    /// Classifies a variable; `None` if it does not concern the configuration.
    pub(super) fn classify(&self, name: &str) -> Option<Variable<'_>> {
        if !name.starts_with(names().prefix) || name == names().file_variable {
            return None;
        }
        if let Some(key) = self.iter().find(|key| variable_of(key.path) == name) {
            return Some(Variable::Setting(key));
        }
        let path = path_of(name);
        let similar = self.nearest(&path).map(variable_of);
        let misspelt = match path.split_once('.') {
            None | Some(("", _)) => None,
            Some((section, _)) if self.is_section(section) => Some(similar.clone()),
            Some((section, _)) => {
                let similar_section = || {
                    self.nearest_section(section)
                        .map(|known| format!("{}{SECTION_MARK}...", variable_of(known)))
                };
                similar.clone().or_else(similar_section).map(Some)
            }
        };
        Some(match misspelt {
            Some(nearest) => Variable::Misspelt { nearest },
            None => Variable::Ignored(IgnoredVariable { name: name.to_owned(), nearest: similar }),
        })
    }

    /// Variables with the prefix that are not keys, sorted by name.
    fn ignored_variables(&self, sources: &Sources) -> Vec<IgnoredVariable> {
        let classified = sources.variables.iter().filter_map(|(name, _)| match self.classify(name)? {
            Variable::Ignored(ignored) => Some(ignored),
            Variable::Setting(_) | Variable::Misspelt { .. } => None,
        });
        let mut ignored: Vec<IgnoredVariable> = classified.collect();
        ignored.sort_by(|one, two| one.name.cmp(&two.name));
        ignored
    }

    /// One warning for each ignored variable that is similar to a key, and one for all others.
    pub fn warnings(&self, sources: &Sources) -> Vec<String> {
        let (similar, other): (Vec<_>, Vec<_>) =
            self.ignored_variables(sources).into_iter().partition(|ignored| ignored.nearest.is_some());
        let mut warnings: Vec<String> =
            similar.into_iter().map(|ignored| similar_warning(&ignored)).collect();
        if !other.is_empty() {
            let by_kubernetes = other.iter().any(|ignored| ignored.name.ends_with("_SERVICE_HOST"));
            let names: Vec<String> = other.into_iter().map(|ignored| ignored.name).collect();
            let reason = match by_kubernetes {
                true => "; Kubernetes sets such variables for a Service unless enableServiceLinks is false",
                false => "",
            };
            warnings.push(format!("ignored, not a configuration key: {}{reason}", names.join(", ")));
        }
        warnings
    }
}

fn similar_warning(IgnoredVariable { name, nearest }: &IgnoredVariable) -> String {
    let nearest = nearest.as_deref().unwrap_or_default();
    format!("ignored, not a configuration key: {name}; did you mean {nearest}?")
}
