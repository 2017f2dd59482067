//! The committed schemas of the migrations, with which `doctor` compares a database.

use std::path::Path;

use marketplace_sql::SqlMarket;

/// Compares the schema of a migrated database with the committed files. `HANDOVER_WRITE_GOLDEN=1` updates the files.
pub async fn check_committed_schema(store: &SqlMarket, engine: &str) {
    let lines = store.schema_lines().await.expect("the schema is readable");
    let is_written = std::env::var_os("HANDOVER_WRITE_GOLDEN").is_some();
    for part in ["outbox", "marketplace"] {
        let of_part = |line: &&str| {
            let table = line.split('\t').next().unwrap_or_default();
            let is_outbox = table.starts_with("outbox_")
                || table.starts_with("webhook_")
                || ["event_consume_log", "dead_letters"].contains(&table);
            !table.ends_with("_migrations")
                && !table.starts_with("sqlite_")
                && is_outbox == (part == "outbox")
        };
        let schema: String = lines.lines().filter(of_part).map(|line| format!("{line}\n")).collect();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations").join(part).join(engine);
        let file = folder.join("schema.txt");
        if is_written {
            std::fs::write(&file, &schema).expect("the file is writable");
        }
        let committed = std::fs::read_to_string(&file).expect("the file is readable");
        let difference =
            committed.lines().zip(schema.lines()).find(|(committed, actual)| committed != actual);
        assert!(
            committed == schema,
            "the migrations create another schema than {}, first at {difference:?}; set HANDOVER_WRITE_GOLDEN=1",
            file.display()
        );
    }
}

/// Describes how the schema of a database differs from the one that the migrations create.
pub async fn differences(store: &SqlMarket) -> Vec<String> {
    let compared = store.compare_schema(&[&marketplace_sql::MIGRATIONS]).await;
    compared.expect("the schema is readable").iter().map(ToString::to_string).collect()
}
