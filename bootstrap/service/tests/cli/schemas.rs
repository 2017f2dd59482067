//! Databases of other versions. The files contain only the tables that record migrations, created with
//!
//! ```sql
//! PRAGMA page_size = 512;
//! CREATE TABLE outbox_migrations (version BIGINT, description TEXT, installed_on TEXT, success BOOLEAN,
//!                                checksum BLOB, execution_time BIGINT);
//! ```
//!
//! `newer.sqlite` has version 1 of the outbox, and versions 1 and 9000 of the marketplace (`marketplace_migrations`);
//! in `empty.sqlite` both tables are empty, as if nothing was migrated; `changed.sqlite` has version 1 of both with a wrong checksum.
//! `unreleased.sqlite` has the baseline migration of both from before the first release, in the table
//! `handover_migrations`.

use handover_outbox::ports::{Store as _, UnitOfWork as _};
use handover_sql::SqlStore;

use crate::program::World;
use crate::redrive;

pub(crate) const NEWER: &[u8] = include_bytes!("schemas/newer.sqlite");
pub(crate) const EMPTY: &[u8] = include_bytes!("schemas/empty.sqlite");

const UNRELEASED: &[u8] = include_bytes!("schemas/unreleased.sqlite");
pub(crate) const CHANGED: &[u8] = include_bytes!("schemas/changed.sqlite");

const SERVE: &str = "serve --listen 127.0.0.1:0";

#[test]
fn newer_schema_is_refused_and_left_unchanged() {
    let world = World::new();
    world.write("handover.db", NEWER);
    let commands = [SERVE, "migrate", "outbox list", "outbox show e-1", "dlq list", "queues"];
    for command in commands {
        world.run(command).refused(
            1,
            &[
                "error: the database handover.db has version 9000 of the marketplace schema, and this program supports versions up to ",
                "why: a newer version of handover migrated the database",
                "do:  run the newer version of handover, name another file with --database",
            ],
        );
    }
    let rows = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("of a later version");
    assert!(rows(&std::fs::read(world.path("handover.db")).unwrap()));
    assert!(!world.files().iter().any(|name| name.contains("secret")), "{:?}", world.files());
}

/// A newer version migrated the database compatibly: this version starts on it and migrates nothing.
#[tokio::test]
async fn newer_compatible_schema_is_accepted() {
    let world = World::new();
    world.run("migrate").done();
    let store = redrive::open(&world.path("handover.db")).await;
    let mut unit = SqlStore::begin(&store).await.unwrap();
    let newer = "INSERT INTO outbox_migrations (version, description, success, checksum, execution_time) \
                 VALUES (9000, 'compatible sequences', true, x'00', 1)";
    unit.execute(newer, Vec::new()).await.unwrap();
    unit.commit().await.unwrap();
    store.close().await;
    for command in ["migrate", "outbox list", "doctor"] {
        world.run(command).done();
    }
    drop(world.serve(""));
}

#[test]
fn database_without_tables_is_migrated_by_serve_and_migrate_only() {
    for command in ["serve", "migrate"] {
        let world = World::new();
        world.write("handover.db", EMPTY);
        world.run("outbox list").refused(
            1,
            &[
                "error: the database handover.db has no tables of the outbox schema",
                "why: the tables have not been created yet: the database is new, or belongs to another program",
                "do:  name the database of the service with --database",
            ],
        );
        if command == "serve" {
            drop(world.serve(""));
        } else {
            assert!(world.run("migrate").done().starts_with(
                "handover.db is at version 17 of the outbox schema and version 8 of the marketplace schema"
            ));
        }
        assert_eq!(world.run("outbox list").done().lines().count(), 1, "the output must be only the header");
    }
}

#[test]
fn migrate_print_shows_pending_sql_and_changes_nothing() {
    let world = World::new();
    let ran = world.run("migrate --print");
    assert!(world.files().is_empty(), "{:?}", world.files());
    for part in [
        "-- handover.db: the SQL that `handover migrate` would run. Nothing was changed.\n\n\
         -- Version 1 of the outbox schema: baseline\n",
        "\nCREATE TABLE outbox_events (\n",
        "\n-- Version 7 of the marketplace schema: compatible open orders\n",
    ] {
        assert!(ran.done().contains(part), "{part:?} is not in {}", ran.stdout);
    }
    world.write("handover.db", EMPTY);
    assert_eq!(world.run("migrate --print").done(), ran.stdout);
    world.run("migrate").done();
    let nothing = "-- handover.db: no migration is pending; nothing would run.\n";
    assert_eq!(world.run("migrate --print").done(), nothing);
    for (file, refusal) in [
        (NEWER, "error: the database handover.db has version 9000 of the marketplace schema"),
        (CHANGED, "migration 1 was previously applied but has been modified"),
    ] {
        world.write("handover.db", file);
        world.run("migrate --print").refused(1, &[refusal]);
    }
}

#[test]
fn schema_of_unreleased_version_is_refused_and_left_unchanged() {
    let world = World::new();
    world.write("handover.db", UNRELEASED);
    for command in [SERVE, "migrate", "outbox list"] {
        world.run(command).refused(
            1,
            &[
                "error: the database handover.db was created by a version of handover from before the first release",
                "why: the migrations from before the first release were replaced by others",
                "do:  start with a new file (--database)",
            ],
        );
    }
    let bytes = std::fs::read(world.path("handover.db")).unwrap();
    assert!(
        !String::from_utf8_lossy(&bytes).contains("outbox_migrations"),
        "the refused database must not get new tables"
    );
}

#[test]
fn schema_that_no_release_created_is_refused_and_left_unchanged() {
    let world = World::new();
    world.write("handover.db", CHANGED);
    for command in [SERVE, "migrate"] {
        world.run(command).refused(
            1,
            &[
                "error: cannot migrate the database handover.db: ",
                "why: no released version of handover created the schema; the migration was rolled back",
                "do:  use the build that created the file, or start with another file (--database)",
            ],
        );
    }
    let older =
        "error: the database handover.db has version 1 of the outbox schema, and this program needs version ";
    world.run("outbox list").refused(1, &[older]);
}

#[test]
fn file_that_is_not_a_database_is_refused_and_left_unchanged() {
    let world = World::new();
    let noise = "no database at all, but long enough to be read as one".repeat(99);
    world.write("handover.db", &noise);
    for command in [SERVE, "migrate", "outbox list"] {
        world.run(command).refused(
            1,
            &[
                "cannot use the database handover.db",
                "all events are stored in the database",
                "name another one",
            ],
        );
    }
    assert_eq!(std::fs::read_to_string(world.path("handover.db")).unwrap(), noise);
}
