//! The examples in help texts.

use clap::{Arg, Command};

/// Replaces words in the help of a command, of its arguments and of its subcommands, so that the examples are those of
/// the program. The toolkit's texts name the program `handover`, the events `BOOK_LENT` and `BOOK_RETURNED`, the
/// aggregates "books, readers, ...", and the queue `library.reminders`.
pub fn with_words(mut command: Command, words: &[(&str, &str)]) -> Command {
    if let Some(about) = command.get_about().map(ToString::to_string) {
        command = command.about(replaced(about, words));
    }
    if let Some(after_help) = command.get_after_help().map(ToString::to_string) {
        command = command.after_help(replaced(after_help, words));
    }
    command
        .mut_args(|argument| argument_with_words(argument, words))
        .mut_subcommands(|subcommand| with_words(subcommand, words))
}

/// Replaces words in the help of an argument.
pub fn argument_with_words(argument: Arg, words: &[(&str, &str)]) -> Arg {
    match argument.get_help().map(ToString::to_string) {
        Some(help) => argument.help(replaced(help, words)),
        None => argument,
    }
}

fn replaced(text: String, words: &[(&str, &str)]) -> String {
    words.iter().fold(text, |text, (from, to)| text.replace(from, to))
}
