//! The content of the database, table by table, to compare before and after a request.

use std::collections::BTreeMap;

use handover_tests::snapshot::DatabaseSnapshot;

/// Tables that change without requests: leases and heartbeats of relays, leader leases, records of jobs, alerts, reports
/// of processes, statistics, sessions of the database broker and their
/// counter, consumer subscriptions, registered event types, and id blocks; and the findings that reconciliations record.
const BACKGROUND_TABLES: [&str; 13] = [
    "outbox_partitions",
    "outbox_relays",
    "outbox_leaders",
    "outbox_jobs",
    "outbox_alerts",
    "outbox_process_reports",
    "outbox_stat_samples",
    "outbox_broker_sessions",
    "outbox_broker_counter",
    "outbox_consumer_subscriptions",
    "outbox_consumer_types",
    "id_blocks",
    "reconciliation_findings",
];

/// The rows of each table as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tables(BTreeMap<String, String>);

impl Tables {
    /// All tables except [`BACKGROUND_TABLES`]. New tables are included automatically.
    pub(crate) async fn of(snapshot: &DatabaseSnapshot) -> Tables {
        let names =
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
            AND name NOT LIKE '~_sqlx~_%' ESCAPE '~'";
        let mut tables = BTreeMap::new();
        for name in snapshot.rows(names).await.unwrap() {
            if !BACKGROUND_TABLES.contains(&name.as_str()) {
                let rows = rows(snapshot, &name).await;
                tables.insert(name, rows);
            }
        }
        for needed in [
            "products",
            "orders",
            "payments",
            "refunds",
            "payment_captures",
            "gateway_reports",
            "coupons",
            "asset_holds",
            "asset_balances",
            "asset_operations",
            "ledger_entries",
            "outbox_events",
            "event_consume_log",
            "dead_letters",
        ] {
            assert!(tables.contains_key(needed), "no table {needed}: {:?}", tables.keys());
        }
        Tables(tables)
    }

    /// The names of the tables that differ.
    pub(crate) fn changed_since<'a>(&'a self, before: &Tables) -> Vec<&'a str> {
        let changed = self.0.iter().filter(|(name, rows)| before.0.get(*name) != Some(*rows));
        changed.map(|(name, _)| name.as_str()).collect()
    }
}

/// The rows of a table with all columns; of the audit log only the entries that record changes.
async fn rows(snapshot: &DatabaseSnapshot, table: &str) -> String {
    let columns = format!("SELECT 'quote(\"' || name || '\")' FROM pragma_table_info('{table}')");
    let row = snapshot.rows(&columns).await.unwrap().join(" || ',' || ");
    let some = if table == "outbox_audit_log" { "WHERE changed > 0" } else { "" };
    let mut rows = snapshot.rows(&format!("SELECT {row} FROM \"{table}\" {some}")).await.unwrap();
    rows.sort();
    rows.join("\n")
}
