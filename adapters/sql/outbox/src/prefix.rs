//! The prefix of the toolkit's tables.
//!
//! The names of its tables, indexes, constraints, triggers and functions are a closed set: those in its migrations. They
//! are written without the prefix everywhere, and get it just before a statement or a migration is sent.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

use crate::migrations::{MigrationFile, Migrations, OUTBOX, names};

/// With the longest name, and with what PostgreSQL appends to the name of a table, the length is below its limit of 63 bytes.
const MAX_BYTES: usize = 24;

/// Every name of the toolkit, without prefix.
static NAMES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let engines = [OUTBOX.sqlite, OUTBOX.mysql, OUTBOX.postgres];
    let named = engines.into_iter().flatten().flat_map(names).map(|named| named.name);
    named.chain([OUTBOX.table]).collect()
});

/// A prefix of the names of the toolkit's tables, indexes, constraints, triggers and functions; by default none.
///
/// Two outboxes with different prefixes can share a database: neither reads or changes anything of the other, and their
/// wake-up notifications are separate. Tables are not renamed, so the prefix MUST be the same in every process and MUST NOT
/// change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TablePrefix(String);

/// Error for a prefix that cannot begin the name of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the table prefix is {0:?}: tables have names that need no quotes on any engine, of at most 63 bytes; use \
     `a` to `z`, digits and underscores, at most {MAX_BYTES} in total, no digit or underscore first, and not `sqlite_`: for \
     example \"handover_\""
)]
pub struct InvalidTablePrefix(String);

impl TablePrefix {
    /// Checks a prefix, such as `handover_`. An empty one is none.
    pub fn new(prefix: impl Into<String>) -> Result<TablePrefix, InvalidTablePrefix> {
        let prefix = prefix.into();
        let is_valid = prefix.len() <= MAX_BYTES
            && !prefix.starts_with(|first: char| !first.is_ascii_lowercase())
            && !prefix.starts_with("sqlite_")
            && prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if is_valid { Ok(TablePrefix(prefix)) } else { Err(InvalidTablePrefix(prefix)) }
    }

    /// Whether there is no prefix.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The prefix before a name that is not in [`NAMES`].
    #[cfg_attr(not(any(feature = "mysql", feature = "postgres")), allow(dead_code))]
    pub(crate) fn before(&self, name: &str) -> String {
        format!("{}{name}", self.0)
    }

    /// A statement in which every name of the toolkit has the prefix, except in quotes: in texts and in quoted names.
    pub(crate) fn statement<'s>(&self, sql: &'s str) -> Cow<'s, str> {
        self.apply(sql, false)
    }

    /// A text in which every name of the toolkit has the prefix, also in quotes.
    pub(crate) fn text<'s>(&self, text: &'s str) -> Cow<'s, str> {
        self.apply(text, true)
    }

    /// The driver's migrator for these files of a part. In them every name of the toolkit has the prefix, also in the text of a
    /// dynamic statement; their checksums are those of the files.
    pub(crate) fn migrator(&self, migrations: &Migrations, files: &[MigrationFile]) -> Migrator {
        let migration = |&(version, description, sql): &MigrationFile| {
            let no_transaction = sql.starts_with("-- no-transaction");
            let name = description.into();
            let text = sql.into_sql_str();
            let mut migration = Migration::new(version, name, MigrationType::Simple, text, no_transaction);
            if let Cow::Owned(prefixed) = self.text(sql) {
                migration.sql = AssertSqlSafe(prefixed).into_sql_str();
            }
            migration
        };
        let mut migrator = Migrator::with_migrations(files.iter().map(migration).collect());
        migrator.dangerous_set_table_name(self.statement(migrations.table));
        migrator
    }

    fn apply<'s>(&self, sql: &'s str, in_quotes: bool) -> Cow<'s, str> {
        if self.is_empty() {
            return Cow::Borrowed(sql);
        }
        let is_in_word = |char: char| char.is_alphanumeric() || char == '_';
        let mut text = String::with_capacity(sql.len() + 8 * self.0.len());
        let mut quote = None;
        let mut rest = sql;
        while let Some(first) = rest.chars().next() {
            let is_word = is_in_word(first);
            let end = rest.find(|char| is_in_word(char) != is_word).unwrap_or(rest.len());
            let (part, later) = rest.split_at(end);
            if is_word && (in_quotes || quote.is_none()) && NAMES.contains(part) {
                text.push_str(&self.0);
            }
            for char in part.chars().filter(|char| matches!(char, '\'' | '"' | '`')) {
                match quote {
                    None => quote = Some(char),
                    Some(open) if open == char => quote = None,
                    Some(_) => {}
                }
            }
            text.push_str(part);
            rest = later;
        }
        Cow::Owned(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix() -> TablePrefix {
        TablePrefix::new("p_").unwrap()
    }

    #[test]
    fn names_are_prefixed_as_whole_words_outside_of_quotes() {
        for (sql, prefixed) in [
            (
                "SELECT o.id FROM outbox_events o INDEXED BY idx_aggregate, dead_letters_2, my_dead_letters",
                "SELECT o.id FROM p_outbox_events o INDEXED BY p_idx_aggregate, dead_letters_2, my_dead_letters",
            ),
            ("(outbox_events.id, outbox_events)", "(p_outbox_events.id, p_outbox_events)"),
            (
                "SELECT 'outbox_events', \"dead_letters\", `dead_letters`, '\"', dead_letters",
                "SELECT 'outbox_events', \"dead_letters\", `dead_letters`, '\"', p_dead_letters",
            ),
            ("SELECT max(version) FROM outbox_migrations", "SELECT max(version) FROM p_outbox_migrations"),
        ] {
            assert_eq!(prefix().statement(sql), prefixed);
        }
        let dynamic = "table_name = 'outbox_history' -- it's outbox_history";
        assert_eq!(prefix().apply(dynamic, true), "table_name = 'p_outbox_history' -- it's p_outbox_history");
    }

    #[test]
    fn statement_without_prefix_is_not_copied() {
        let sql = "SELECT id FROM outbox_events";
        assert!(matches!(TablePrefix::default().statement(sql), Cow::Borrowed(same) if same == sql));
    }

    #[test]
    fn longest_prefix_fits_into_the_names_of_postgres() {
        let longest = "p".repeat(MAX_BYTES);
        assert!(TablePrefix::new(longest.clone()).is_ok());
        for name in NAMES.iter() {
            assert!(MAX_BYTES + name.len() + "_pkey".len() <= 63, "{name}");
        }
        for invalid in [
            &format!("{longest}p"),
            "Handover_",
            "2_",
            "_",
            "hand over",
            "hand-over_",
            "sqlite_x_",
            "\u{e4}_",
        ] {
            let error = TablePrefix::new(invalid).unwrap_err().to_string();
            assert!(error.contains("use `a` to `z`"), "{error}");
        }
        assert_eq!(TablePrefix::new(""), Ok(TablePrefix::default()));
    }
}
