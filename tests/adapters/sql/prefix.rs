//! The prefix of the toolkit's tables on SQLite, and names that another application uses.

use std::sync::Arc;

use handover_outbox::ports::Store as _;
use handover_sql::{SchemaError, SqlStore, SqliteOptions, TablePrefix};
use handover_system::SystemClock;
use sqlx::{Connection as _, Executor as _, SqliteConnection};
use tempfile::TempDir;

/// Opens a store with this prefix on the file of the folder.
async fn open(folder: &TempDir, prefix: &str) -> SqlStore {
    let options = SqliteOptions::file(folder.path().join("test.db"));
    let options = options.table_prefix(TablePrefix::new(prefix).unwrap());
    SqlStore::open_sqlite(&options, Arc::new(SystemClock), Default::default()).await.unwrap()
}

async fn direct(folder: &TempDir) -> SqliteConnection {
    let url = format!("sqlite:{}", folder.path().join("test.db").display());
    SqliteConnection::connect(&url).await.unwrap()
}

/// Type and name of everything in the schema, and table and name of every column, in the order of the names.
async fn schema(folder: &TempDir) -> Vec<(String, String)> {
    let objects = "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2";
    let columns = "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_xinfo(t.name) c \
                   WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY 1, 2";
    let mut connection = direct(folder).await;
    let mut found: Vec<(String, String)> = sqlx::query_as(objects).fetch_all(&mut connection).await.unwrap();
    found.extend(sqlx::query_as::<_, (String, String)>(columns).fetch_all(&mut connection).await.unwrap());
    found
}

#[tokio::test]
async fn everything_in_the_schema_has_the_prefix_except_columns() {
    let plain = tempfile::tempdir().unwrap();
    open(&plain, "").await.migrate().await.unwrap();
    let prefixed = tempfile::tempdir().unwrap();
    let store = open(&prefixed, "own_").await;
    store.migrate().await.unwrap();
    assert!(store.is_ready(&[]).await.unwrap());
    assert_eq!(store.compare_schema(&[]).await.unwrap(), []);
    let is_kind = |text: &str| matches!(text, "table" | "index" | "trigger");
    let expected: Vec<(String, String)> = schema(&plain)
        .await
        .into_iter()
        .map(
            |(of, name)| {
                if is_kind(&of) { (of, format!("own_{name}")) } else { (format!("own_{of}"), name) }
            },
        )
        .collect();
    assert!(expected.len() > 100);
    assert_eq!(schema(&prefixed).await, expected);
}

#[tokio::test]
async fn checksums_of_migrations_do_not_depend_on_the_prefix() {
    let folder = tempfile::tempdir().unwrap();
    for prefix in ["", "own_"] {
        open(&folder, prefix).await.migrate().await.unwrap();
    }
    let mut connection = direct(&folder).await;
    let differing = "SELECT count(*) FROM outbox_migrations p FULL JOIN own_outbox_migrations o ON o.version = p.version \
                     WHERE o.checksum IS NOT p.checksum OR o.description IS NOT p.description";
    let differing: i64 = sqlx::query_scalar(differing).fetch_one(&mut connection).await.unwrap();
    assert_eq!(differing, 0);
}

/// On SQLite, tables and indexes share a namespace.
#[tokio::test]
async fn index_of_another_application_is_refused_before_anything_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, "").await;
    let mut connection = direct(&folder).await;
    connection.execute("CREATE TABLE clubs (name TEXT)").await.unwrap();
    connection.execute("CREATE INDEX idx_aggregate ON clubs (name)").await.unwrap();
    let before = schema(&folder).await;
    let refused = store.migrate().await.unwrap_err();
    assert_eq!(refused.to_string(), "it has an index idx_aggregate that handover did not create");
    assert_eq!(schema(&folder).await, before);
    open(&folder, "own_").await.migrate().await.unwrap();
    connection.execute("DROP INDEX idx_aggregate").await.unwrap();
    store.migrate().await.unwrap();
}

/// An upgrade must not stop at a statement of the middle of a migration.
#[tokio::test]
async fn table_of_a_pending_migration_that_exists_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, "").await;
    let mut connection = direct(&folder).await;
    handover_tests::upgrade::migrate_to_first_version(&mut connection, "sqlite").await;
    connection.execute("CREATE TABLE webhook_endpoints (id INTEGER)").await.unwrap();
    let before = schema(&folder).await;
    let refused = store.migrate().await;
    assert!(
        matches!(&refused, Err(SchemaError::ForeignRelation { kind, name }) if kind == "a table" && name == "webhook_endpoints"),
        "{refused:?}"
    );
    assert_eq!(schema(&folder).await, before);
    connection.execute("DROP TABLE webhook_endpoints").await.unwrap();
    store.migrate().await.unwrap();
    store.migrate().await.unwrap();
}

#[tokio::test]
async fn application_statements_name_tables_without_prefix_and_quoted_names_are_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, "own_").await;
    direct(&folder).await.execute("CREATE TABLE dead_letters (name TEXT)").await.unwrap();
    store.migrate().await.unwrap();
    let mut unit = store.begin().await.unwrap();
    unit.execute("INSERT INTO \"dead_letters\" VALUES (?)", vec!["mine".into()]).await.unwrap();
    let count = "SELECT count(*) AS mine, (SELECT count(*) FROM dead_letters) AS ours FROM \"dead_letters\"";
    let rows = unit.fetch(count, Vec::new()).await.unwrap();
    assert_eq!((rows[0].int("mine").unwrap(), rows[0].int("ours").unwrap()), (1, 0));
}
