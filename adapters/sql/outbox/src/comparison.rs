//! Compares the schema of a database with the one that the migrations of this build create.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use handover_outbox::ports::StoreError;

use crate::dialect::CREATED;
use crate::migrations::{Migrations, OUTBOX};
use crate::schema::SchemaError;
use crate::session::Session;
use crate::store::SqlStore;
use crate::value::values;

/// What differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SchemaItem {
    /// A table.
    Table,
    /// A column.
    Column,
    /// An index that is not part of a constraint.
    Index,
    /// A constraint. Its name is its definition, unless the engine has no comparable definition.
    Constraint,
    /// A trigger.
    Trigger,
}

/// A difference between the schema of a database and the one that the migrations create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaDifference {
    /// Name of the table.
    pub table: String,
    /// What differs.
    pub item: SchemaItem,
    /// Its name.
    pub name: String,
    /// The expected definition; `None` if the migrations do not create it.
    pub expected: Option<String>,
    /// The definition in the database; `None` if it is missing.
    pub found: Option<String>,
}

/// Table, kind and name.
type Key<'a> = (&'a str, SchemaItem, &'a str);

impl SchemaItem {
    const ALL: [SchemaItem; 5] = [
        SchemaItem::Table,
        SchemaItem::Column,
        SchemaItem::Index,
        SchemaItem::Constraint,
        SchemaItem::Trigger,
    ];

    fn parse(text: &str) -> Option<SchemaItem> {
        SchemaItem::ALL.into_iter().find(|item| item.to_string() == text)
    }
}

impl Display for SchemaItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SchemaItem::Table => "table",
            SchemaItem::Column => "column",
            SchemaItem::Index => "index",
            SchemaItem::Constraint => "constraint",
            SchemaItem::Trigger => "trigger",
        })
    }
}

impl Display for SchemaDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SchemaDifference { table, item, name, expected, found } = self;
        match item {
            SchemaItem::Table => write!(f, "the table {name}")?,
            SchemaItem::Column | SchemaItem::Index | SchemaItem::Constraint | SchemaItem::Trigger => {
                write!(f, "the {item} {name} of the table {table}")?;
            }
        }
        match (expected.as_deref(), found.as_deref()) {
            (Some(expected), Some(found)) => write!(f, " is `{found}` instead of `{expected}`"),
            (Some("") | None, None) => f.write_str(" is missing"),
            (Some(expected), None) => write!(f, " is missing: `{expected}`"),
            (None, Some(found)) => write!(f, " is not part of the schema: `{found}`"),
        }
    }
}

impl SqlStore {
    /// Compares the tables of the outbox and of these parts with those that the migrations create. Additional tables, indexes
    /// and constraints are no difference, nor are additional columns that an `INSERT` may omit. Not compared are a part that a
    /// newer build migrated, and constraints that the database does not show to this user (MySQL and MariaDB).
    pub async fn compare_schema(&self, parts: &[&Migrations]) -> Result<Vec<SchemaDifference>, SchemaError> {
        let found = self.schema_lines().await?;
        let found = parsed(&found);
        let mut differences = Vec::new();
        for part in [&OUTBOX].iter().chain(parts) {
            if !self.version_of_part(part).await?.is_newer() {
                let expected = self.engine().prefix().text(self.engine().expected(part));
                differences.extend(compare(&parsed(&expected), &found));
            }
        }
        Ok(differences)
    }

    /// The schema of the database in lines of four columns, separated by tabs: table, kind, name and definition. Contains the
    /// columns, indexes, constraints and triggers of all tables, in the order of their names.
    pub async fn schema_lines(&self) -> Result<String, StoreError> {
        let lines = self.reading().await?.schema_lines().await?;
        Ok(lines.into_iter().map(|line| line + "\n").collect())
    }
}

impl Session {
    async fn schema_lines(&mut self) -> Result<BTreeSet<String>, StoreError> {
        let mut lines = BTreeSet::new();
        for row in self.fetch(self.dialect.catalogue(), values![]).await? {
            let column = |name| row.text(name);
            let table = column("relation")?;
            let kind = column("kind")?;
            let definition = column("definition")?;
            if kind == CREATED {
                let created = normalized(definition);
                lines.extend(checks(&created).iter().map(|check| line(table, "constraint", check, "")));
            } else {
                lines.insert(line(table, kind, &normalized(column("name")?), &normalized(definition)));
            }
        }
        Ok(lines)
    }
}

fn line(table: &str, kind: &str, name: &str, definition: &str) -> String {
    format!("{table}\t{kind}\t{name}\t{definition}")
}

/// SQL without comments, with one space between words.
fn normalized(sql: &str) -> String {
    let code = sql.lines().filter_map(|line| line.split("--").next());
    code.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// The `CHECK` constraints in a normalized `CREATE TABLE` statement.
fn checks(sql: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = sql;
    while let Some(start) = rest.find("CHECK (") {
        let check = &rest[start..];
        let mut depth = 0_usize;
        let mut is_quoted = false;
        let end = check.find(|character| {
            match character {
                '\'' => is_quoted = !is_quoted,
                '(' if !is_quoted => depth += 1,
                ')' if !is_quoted => depth -= 1,
                _ => return false,
            }
            character == ')' && depth == 0
        });
        let length = end.map_or(check.len(), |end| end + 1);
        found.push(&check[..length]);
        rest = &check[length..];
    }
    found
}

fn parsed(lines: &str) -> BTreeMap<Key<'_>, &str> {
    let item = |line| {
        let mut columns = str::splitn(line, 4, '\t');
        let table = columns.next()?;
        let kind = SchemaItem::parse(columns.next()?)?;
        Some(((table, kind, columns.next()?), columns.next()?))
    };
    lines.lines().filter_map(item).collect()
}

fn compare(expected: &BTreeMap<Key<'_>, &str>, found: &BTreeMap<Key<'_>, &str>) -> Vec<SchemaDifference> {
    let tables = |items: &BTreeMap<Key<'_>, &str>| -> BTreeSet<String> {
        items.keys().map(|(table, ..)| (*table).to_owned()).collect()
    };
    let existing = tables(found);
    let (existing, missing): (BTreeSet<_>, BTreeSet<_>) =
        tables(expected).into_iter().partition(|table| existing.contains(table));
    let mut differences: Vec<SchemaDifference> = missing
        .into_iter()
        .map(|table| SchemaDifference {
            name: table.clone(),
            table,
            item: SchemaItem::Table,
            expected: Some(String::new()),
            found: None,
        })
        .collect();
    // MySQL and MariaDB show constraints only to a user who may change the tables.
    let shows_constraints = found.keys().any(|(_, item, _)| *item == SchemaItem::Constraint);
    let is_comparable = |item| shows_constraints || item != SchemaItem::Constraint;
    let difference = |(table, item, name): Key<'_>, expected: Option<&str>, found: Option<&str>| {
        let [table, name] = [table, name].map(str::to_owned);
        let [expected, found] = [expected, found].map(|text| text.map(str::to_owned));
        SchemaDifference { table, item, name, expected, found }
    };
    for (key, definition) in expected.iter().filter(|((table, ..), _)| existing.contains(*table)) {
        let actual = found.get(key).copied();
        if actual != Some(*definition) && is_comparable(key.1) {
            differences.push(difference(*key, Some(definition), actual));
        }
    }
    for (key, definition) in found.iter().filter(|((table, ..), _)| existing.contains(*table)) {
        let is_required = key.1 == SchemaItem::Column && is_required(definition);
        if is_required && !expected.contains_key(key) {
            differences.push(difference(*key, None, Some(definition)));
        }
    }
    differences
}

/// Whether an `INSERT` must set the column.
fn is_required(definition: &str) -> bool {
    definition.contains(" not null")
        && ![" default ", " generated", " identity", " auto_increment"]
            .iter()
            .any(|given| definition.contains(given))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: &str = "t\tcolumn\tid\tbigint not null\n\
                            t\tcolumn\tname\ttext\n\
                            t\tindex\tidx_name\tCREATE INDEX idx_name ON t (name)\n\
                            t\tconstraint\tCHECK (id > 0)\t\n\
                            u\tcolumn\tid\tbigint not null\n";

    fn differences(found: &str) -> Vec<String> {
        compare(&parsed(EXPECTED), &parsed(found)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn equal_schemas_have_no_difference() {
        assert!(differences(EXPECTED).is_empty());
    }

    #[test]
    fn missing_and_changed_items_are_differences_and_columns_of_missing_table_are_not_listed() {
        let found = "t\tcolumn\tid\tinteger\nt\tcolumn\tname\ttext\nt\tconstraint\tCHECK (id > 1)\t\n";
        assert_eq!(
            differences(found),
            [
                "the table u is missing",
                "the column id of the table t is `integer` instead of `bigint not null`",
                "the index idx_name of the table t is missing: `CREATE INDEX idx_name ON t (name)`",
                "the constraint CHECK (id > 0) of the table t is missing",
            ]
        );
    }

    #[test]
    fn constraints_are_not_compared_if_the_user_sees_none() {
        let without: String = EXPECTED.split_inclusive('\n').filter(|line| !line.contains("CHECK")).collect();
        assert!(differences(&without).is_empty());
    }

    #[test]
    fn additional_item_is_a_difference_only_if_an_insert_must_set_it() {
        let with = |extra: &str| differences(&format!("{EXPECTED}{extra}"));
        for harmless in [
            "t\tcolumn\textra\ttext\n",
            "t\tcolumn\textra\ttext not null default 'a'\n",
            "t\tcolumn\textra\tbigint not null generated\n",
            "t\tindex\tidx_extra\tCREATE UNIQUE INDEX idx_extra ON t (name)\n",
            "x\tcolumn\textra\ttext not null\n",
        ] {
            assert!(with(harmless).is_empty(), "{harmless}");
        }
        assert_eq!(
            with("t\tcolumn\textra\ttext not null\n"),
            ["the column extra of the table t is not part of the schema: `text not null`"]
        );
    }

    #[test]
    fn checks_are_read_with_nested_and_quoted_parentheses() {
        let sql = "CREATE TABLE t (a TEXT CHECK (length(a) > 0 AND a <> ')'), b TEXT, CHECK ((a = b)))";
        assert_eq!(checks(sql), ["CHECK (length(a) > 0 AND a <> ')')", "CHECK ((a = b))"]);
    }

    #[test]
    fn comments_and_white_space_do_not_matter() {
        assert_eq!(
            normalized("CREATE TRIGGER t -- it's a trigger\n  BEGIN\n  END"),
            "CREATE TRIGGER t BEGIN END"
        );
    }
}
