//! Rows that a database server has read, by table and index.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use handover_contract::TIMEOUT;
use handover_tests::process::eventually;
use handover_tests::servers::database::{ServerKind, TestDatabase};
use serde_json::Value as Json;
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection as _, Row as _};

/// Rows of a table that were read by an index. The index is `none` for scans, and for rows that MariaDB fetches again
/// after it has sorted them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) table: String,
    pub(super) index: String,
    pub(super) rows: usize,
}

/// Read statistics of one database.
pub(super) enum Reads {
    /// Counters by table and index.
    MariaDb { connection: MySqlConnection, database: String, seen: BTreeMap<(String, String), usize> },
    /// The log with executed plans, and the position up to which it was read.
    Postgres { log: PathBuf, database: String, seen: u64 },
}

impl Reads {
    /// Makes the server count the rows that it reads (MariaDB) or log executed plans (PostgreSQL).
    pub(super) async fn of(database: &TestDatabase) -> Reads {
        let server = database.server();
        let name = database.name().to_owned();
        match server.kind() {
            ServerKind::MariaDb => {
                server.execute("SET GLOBAL userstat = 1").await.unwrap();
                let connection = MySqlConnection::connect(&database.url()).await.unwrap();
                Reads::MariaDb { connection, database: name, seen: BTreeMap::new() }
            }
            ServerKind::Postgres => {
                for setting in [
                    "session_preload_libraries = 'auto_explain'",
                    "auto_explain.log_min_duration = 0",
                    "auto_explain.log_analyze = on",
                    "auto_explain.log_timing = off",
                    "auto_explain.log_format = json",
                ] {
                    server.execute(&format!("ALTER DATABASE {name} SET {setting}")).await.unwrap();
                }
                Reads::Postgres { log: server.folder().join("log"), database: name, seen: 0 }
            }
        }
    }

    /// Starts a new measurement: rows that were read before are not counted.
    pub(super) async fn reset(&mut self) {
        match self {
            Reads::MariaDb { connection, database, seen } => *seen = counters(connection, database).await,
            Reads::Postgres { log, seen, .. } => *seen = std::fs::metadata(log).unwrap().len(),
        }
    }

    /// Number of runs after which the plan of a statement does not change any more. PostgreSQL may cache a plan after
    /// five executions of a statement; MariaDB plans each execution.
    pub(super) fn runs_until_plan_is_cached(&self) -> u32 {
        match self {
            Reads::MariaDb { .. } => 1,
            Reads::Postgres { .. } => 7,
        }
    }

    /// Whether MariaDB may have fetched these rows again after sorting; of such rows only the number is checked.
    pub(super) fn may_be_sorted(&self, read: &Read) -> bool {
        matches!(self, Reads::MariaDb { .. }) && read.index == "none"
    }

    /// Rows read since the last [`reset`](Reads::reset).
    pub(super) async fn rows_read(&mut self) -> Vec<Read> {
        match self {
            Reads::MariaDb { connection, database, seen } => {
                let now = counters(connection, database).await;
                now.into_iter()
                    .filter_map(|((table, index), rows)| {
                        let before = seen.get(&(table.clone(), index.clone())).copied().unwrap_or(0);
                        (rows > before).then(|| Read { table, index, rows: rows - before })
                    })
                    .collect()
            }
            Reads::Postgres { log, database, seen } => {
                eventually(TIMEOUT, async || {
                    let read = logged(log, database, *seen);
                    if read.is_empty() { Err("no plan was logged".into()) } else { Ok(read) }
                })
                .await
            }
        }
    }
}

/// Rows read since the server started, by table and index.
async fn counters(connection: &mut MySqlConnection, database: &str) -> BTreeMap<(String, String), usize> {
    let by_index = "SELECT table_name, index_name, rows_read FROM information_schema.index_statistics \
                    WHERE table_schema = ?";
    let by_table = "SELECT table_name, 'none', rows_read FROM information_schema.table_statistics WHERE table_schema = ?";
    let mut counters = BTreeMap::new();
    for sql in [by_index, by_table] {
        for row in sqlx::query(sql).bind(database).fetch_all(&mut *connection).await.unwrap() {
            let key: (String, String) = (row.get(0), row.get(1));
            let rows: i64 = row.get(2);
            counters.insert(key, usize::try_from(rows).unwrap());
        }
    }
    // So far, `none` counts all rows that were read from a table. Subtracting the rows that were read by an index
    // leaves those that were read without one.
    let of_indexes: BTreeMap<String, usize> = counters.iter().filter(|((_, index), _)| index != "none").fold(
        BTreeMap::new(),
        |mut sums, ((table, _), rows)| {
            *sums.entry(table.clone()).or_default() += rows;
            sums
        },
    );
    for ((table, index), rows) in &mut counters {
        if index == "none" {
            *rows = rows.saturating_sub(of_indexes.get(table).copied().unwrap_or(0));
        }
    }
    counters
}

/// The scans of the plans logged for a database after this position of the log.
fn logged(log: &PathBuf, database: &str, from: u64) -> Vec<Read> {
    let mut file = std::fs::File::open(log).unwrap();
    file.seek(SeekFrom::Start(from)).unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let mut reads = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if !(line.contains(&format!(" {database} LOG:  duration: ")) && line.ends_with("plan:")) {
            continue;
        }
        let mut plan = String::new();
        while let Some(line) = lines.next_if(|line| line.starts_with('\t')) {
            plan.push_str(line);
        }
        // The server may still be writing the last plan; an incomplete plan is skipped.
        if let Ok(plan) = serde_json::from_str::<Json>(&plan) {
            scans(&plan["Plan"], &mut reads);
        }
    }
    reads
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "row counts, which the JSON plan contains as floating-point numbers"
)]
fn scans(node: &Json, reads: &mut Vec<Read>) {
    let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
    let text = |name: &str| node[name].as_str().unwrap_or("none").to_owned();
    let loops = number("Actual Loops");
    if text("Node Type").ends_with("Scan") && node["Relation Name"].is_string() {
        let of_each = number("Actual Rows") + number("Rows Removed by Filter");
        let rows = (of_each * loops).ceil() as usize;
        reads.push(Read { table: text("Relation Name"), index: text("Index Name"), rows });
    }
    // Rows that a join compared and rejected count as rows read without an index: the join holds them in memory.
    let compared = number("Rows Removed by Join Filter") * loops;
    if compared > 0.0 {
        reads.push(Read { table: "a join".to_owned(), index: "none".to_owned(), rows: compared as usize });
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        scans(child, reads);
    }
}
