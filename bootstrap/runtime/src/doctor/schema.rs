//! Checks of the schema: its versions, and its tables.

use handover_sql::{SchemaDifference, SchemaItem};

use super::report::Check;
use crate::failure::Failure;
use crate::settings::DatabaseChoice;
use crate::stores::{AttachedDatabase, Schema};

const SCHEMA: &str = "schema";

/// Compares the schema versions with those that the program needs.
pub(super) fn versions(database: &DatabaseChoice, schema: Schema) -> Check {
    match (schema, database) {
        (Schema::Current, _) => Check::ok(SCHEMA, "every schema version is current".to_owned()),
        (Schema::Older(version), DatabaseChoice::File(_)) => match version.found {
            Some(found) => Check::warn(
                SCHEMA,
                format!(
                    "version {found} of the {} schema, and this program needs {}",
                    version.part, version.needed
                ),
                "an older version of handover created the schema; only a backup can undo a migration",
                "run `handover backup FILE`, then `handover migrate`, or start the service, which migrates too",
            ),
            None => Check::warn(
                SCHEMA,
                format!("no tables of the {} schema", version.part),
                "the database is new, or belongs to another program; the service creates its tables in it",
                "name the database of the service with --database, or start the service if this file is the right one",
            ),
        },
        // The service migrates database files only.
        (older @ Schema::Older(_), DatabaseChoice::Server(_)) => refused(older, database),
        (newer @ Schema::Newer(_), _) => refused(newer, database),
    }
}

fn refused(schema: Schema, database: &DatabaseChoice) -> Check {
    match schema.current(database) {
        Ok(()) => Check::ok(SCHEMA, String::new()),
        Err(failure) => Check::failed(SCHEMA, &failure),
    }
}

/// Compares the tables of a current schema with those that the migrations create.
pub(super) async fn tables(database: &AttachedDatabase) -> Vec<Check> {
    match database.store.compare_schema(database.parts()).await {
        Ok(differences) => differences.iter().map(difference).collect(),
        Err(error) => vec![Check::failed(SCHEMA, &Failure::schema(&database.choice)(error))],
    }
}

fn difference(found: &SchemaDifference) -> Check {
    let why = match (found.item, &found.expected) {
        (SchemaItem::Column, None) => "the program does not set the column, so it cannot insert rows",
        (SchemaItem::Table | SchemaItem::Column, _) => "statements of the program fail, or change values",
        (SchemaItem::Index, _) => "statements fail that name the index, or they read the whole table",
        (SchemaItem::Constraint, _) => {
            "the database accepts rows that the program cannot read, or that exist twice"
        }
        (SchemaItem::Trigger, _) => {
            "the database accepts times that the program cannot compare, or changes of the audit log"
        }
    };
    let remedy = match found.expected {
        None => "give the column a default value, or drop it",
        Some(_) => {
            "the migrations create it, so something else changed the schema, or this user does not see it: undo the change as the \
             owner of the tables, or restore a backup; the statements are in the file of the migration"
        }
    };
    Check::fail(SCHEMA, found.to_string(), why.to_owned(), remedy.to_owned())
}
