//! The names of the program: in advice, of its environment variables, and of its configuration file.

use std::sync::OnceLock;

/// The names of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramNames {
    /// The command that starts the program. Advice and examples call its subcommands with this name.
    pub command: &'static str,
    /// Prefix of the environment variables.
    pub prefix: &'static str,
    /// The environment variable that names the configuration file; begins with the prefix.
    pub file_variable: &'static str,
    /// The configuration file that is read if it exists and no other is named.
    pub file: &'static str,
}

const DEFAULT: ProgramNames = ProgramNames {
    command: "handover",
    prefix: "HANDOVER_",
    file_variable: "HANDOVER_CONFIG",
    file: "handover.toml",
};

/// The names of `handover`.
impl Default for ProgramNames {
    fn default() -> ProgramNames {
        DEFAULT
    }
}

static NAMES: OnceLock<ProgramNames> = OnceLock::new();

/// Names this program. MUST be called before the arguments are parsed; without a call the names are those of
/// `handover`. Only the first call has an effect.
pub fn set_names(names: ProgramNames) {
    NAMES.get_or_init(|| names);
}

/// The names of this program.
pub fn names() -> ProgramNames {
    NAMES.get().copied().unwrap_or_default()
}

/// A text of the toolkit in which the commands have the name of this program: `handover migrate` becomes
/// `library migrate`. Commands are in backquotes, in indented examples, or follow "see".
pub fn in_own_name(text: &str) -> String {
    renamed(text, names().command)
}

fn renamed(text: &str, command: &str) -> String {
    ["`", "  ", "see "].iter().fold(text.to_owned(), |text, before| {
        text.replace(&format!("{before}{} ", DEFAULT.command), &format!("{before}{command} "))
    })
}

#[cfg(test)]
mod tests {
    use super::renamed;

    #[test]
    fn only_commands_get_the_name_of_the_program() {
        let text = "run `handover migrate` on the tables of handover, see handover dlq --help\n  handover outbox list";
        let own =
            "run `library migrate` on the tables of handover, see library dlq --help\n  library outbox list";
        assert_eq!(renamed(text, "library"), own);
        assert_eq!(renamed(text, "handover"), text);
    }
}
