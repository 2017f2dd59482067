//! The sequence of the commands, and the marketplace's words in the help of the toolkit's commands.

use clap::{Arg, ArgMatches, Command as Definition, Error, FromArgMatches, Subcommand};
use handover_cli::{argument_with_words, with_words};

use super::command::Command;

/// The commands by subject; those of the toolkit stand among those of the marketplace.
const SEQUENCE: [&str; 21] = [
    "serve",
    "migrate",
    "backup",
    "doctor",
    "demo",
    "token",
    "outbox",
    "dlq",
    "order",
    "payment",
    "refund",
    "webhook",
    "reconcile",
    "erase",
    "consumptions",
    "audit",
    "queues",
    "config",
    "openapi",
    "asyncapi",
    "completions",
];

/// Words of the toolkit's help, and the words of the marketplace in their place.
const WORDS: [(&str, &str); 15] = [
    ("the operators' route GET /outbox", "the API (GET /api/v1/ops/outbox)"),
    ("stores the events", "stores orders and events"),
    ("BOOK_LENT", "ORDER_CREATED"),
    ("BOOK_RETURNED", "ORDER_PAID"),
    ("books, readers, ...: Book, Reader, ...", "orders, payments, ...: Order, Payment, ..."),
    ("List books, readers,", "List orders, payments,"),
    ("Release a book, reader,", "Release an order, payment,"),
    ("the book, reader,", "the order, payment,"),
    ("Aggregate type: Book, Reader,", "Aggregate type: Order, Payment,"),
    ("release Book 17", "release Order 17"),
    ("returned manually", "refunded manually"),
    ("book.lent", "order.paid"),
    ("'book.*'", "'order.*'"),
    ("of a book, reader, ... in", "of an order, payment, ... in"),
    ("library.reminders", "inventory.update.queue"),
];

/// The argument with the marketplace's words in its help.
pub(super) fn in_own_words(argument: Arg) -> Arg {
    argument_with_words(argument, &WORDS)
}

/// A command, defined in the sequence of the help.
#[derive(Debug)]
pub struct InOrder(pub Command);

impl FromArgMatches for InOrder {
    fn from_arg_matches(matches: &ArgMatches) -> Result<InOrder, Error> {
        Command::from_arg_matches(matches).map(InOrder)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Subcommand for InOrder {
    fn augment_subcommands(program: Definition) -> Definition {
        let defined = with_words(Command::augment_subcommands(Definition::new("handover")), &WORDS);
        let mut commands: Vec<Definition> = defined.get_subcommands().cloned().collect();
        let position = |command: &Definition| SEQUENCE.iter().position(|name| *name == command.get_name());
        commands.sort_by_key(|command| position(command).unwrap_or(SEQUENCE.len()));
        let ordered = commands.into_iter().enumerate();
        program.subcommands(ordered.map(|(position, command)| command.display_order(position)))
    }

    fn augment_subcommands_for_update(program: Definition) -> Definition {
        InOrder::augment_subcommands(program)
    }

    fn has_subcommand(name: &str) -> bool {
        Command::has_subcommand(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_replaced_text_is_in_the_help_of_the_toolkit() {
        let mut pages = vec![Command::augment_subcommands(Definition::new("handover"))];
        let mut texts = String::new();
        while let Some(mut page) = pages.pop() {
            texts += &page.render_long_help().to_string();
            pages.extend(page.get_subcommands().cloned());
        }
        for (from, to) in WORDS {
            assert!(texts.contains(from), "{from}");
            texts = texts.replace(from, to);
        }
    }
}
