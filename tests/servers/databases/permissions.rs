//! The database users of `.deploy`: one migrates, the other one runs the service. The second user can neither change
//! the schema nor change rows of the audit log, the history and the ledger.

use std::path::Path;

use handover_tests::client::Api;
use handover_tests::process::{Launch, eventually, fresh};
use handover_tests::server_rigs::shared;
use handover_tests::servers::PASSWORD;
use handover_tests::servers::database::{DatabaseServer, ServerKind};
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};

use super::on_every_server;

on_every_server!(service_user_can_serve_but_not_change_schema_or_append_only_tables);

async fn service_user_can_serve_but_not_change_schema_or_append_only_tables(kind: ServerKind) {
    let server = shared(kind).await;
    let url = |user: &str| {
        server
            .url("rights", server.port())
            .replace(&format!("//handover:{PASSWORD}@"), &format!("//{user}:change-me@"))
    };
    match kind {
        ServerKind::MariaDb => {
            administer(server, &script("mysql-users.sql")).await;
            migrate(&url("shop_owner"));
            administer(server, &script("mysql-rights.sql")).await;
        }
        ServerKind::Postgres => {
            administer(server, &script("postgres-rights.sql")).await;
            migrate(&url("shop_owner"));
        }
    }
    let (_folder, launch) = fresh();
    let launch = on(launch, &url("shop_service"));
    let running = launch.start().unwrap();
    let api = Api::of(&running);
    let product = api.list_product(1, "Desk lamp").await.unwrap().id("productId");
    let order = api.place_order(2, product).await.unwrap().id("orderId");
    assert!(api.cancel(2, order).await.unwrap().done());
    // The user of the service must also have the permissions of the relay, the consumers and an operator command, which
    // writes an audit entry.
    eventually(handover_contract::TIMEOUT, async || {
        let (_, sent, _) = launch.run(&["outbox", "list", "--status", "sent", "--output", "json"])?;
        if sent.matches("ORDER_CANCELLED").count() == 1 { Ok(()) } else { Err(sent.into()) }
    })
    .await;
    let (code, out, err) =
        launch.run(&["outbox", "redrive", "--status", "sent", "--reason", "test"]).unwrap();
    assert_eq!(code, Some(0), "{out}{err}");
    let (_, audit, _) = launch.run(&["audit", "list"]).unwrap();
    assert!(audit.contains("test"), "{audit}");
    assert!(!launch.log().contains("denied"), "{}", launch.log());
    revoked_right_delays_effects(server, &launch, &api).await;
    let (_, report, _) = launch.run(&["doctor", "--listen", "127.0.0.1:0"]).unwrap();
    assert!(report.contains("schema") && !report.contains("audit log"), "{report}");
    assert!(!report.contains("is missing"), "the service's user sees the whole schema: {report}");
    if kind == ServerKind::MariaDb {
        let (_folder, owning) = fresh();
        let doctor = on(owning, &url("shop_owner")).run(&["doctor", "--listen", "127.0.0.1:0"]).unwrap();
        assert!(doctor.1.contains("the database user can change the audit log"), "{doctor:?}");
    }
    for forbidden in [
        "UPDATE outbox_audit_log SET reason = 'nothing'",
        "DELETE FROM outbox_audit_log",
        "UPDATE ledger_entries SET amount = 0",
        "DELETE FROM asset_operations",
        "UPDATE outbox_history SET attempts = 0",
        "DELETE FROM outbox_history",
        "DROP TABLE orders",
        "ALTER TABLE orders ADD COLUMN more BIGINT",
        "CREATE TABLE mine (id BIGINT)",
    ] {
        let refused = as_service(kind, &url("shop_service"), forbidden).await.unwrap_err().to_string();
        let is_expected = ["denied", "must be owner", "audit"].iter().any(|word| refused.contains(word));
        assert!(is_expected, "{forbidden}: {refused}");
    }
    only_old_reads_can_be_deleted(server, &url("shop_service")).await;
}

/// The user of the service can delete audit entries of reads that are older than six days: those of changes, and younger ones, stay.
async fn only_old_reads_can_be_deleted(server: &DatabaseServer, url: &str) {
    let kind = server.kind();
    let (relation, ago) = match kind {
        ServerKind::MariaDb => ("outbox_old_audit_reads", "UTC_TIMESTAMP(6) - INTERVAL"),
        ServerKind::Postgres => ("outbox_audit_log", "now() - INTERVAL"),
    };
    let interval = |days: u32| match kind {
        ServerKind::MariaDb => format!("{ago} {days} DAY"),
        ServerKind::Postgres => format!("{ago} '{days} days'"),
    };
    for (changed, age, is_deleted) in [(0, 7, true), (0, 5, false), (1, 400, false)] {
        let entry = format!(
            "INSERT INTO outbox_audit_log (tenant_id, actor, action, selection, changed, trace_id, create_time) \
             VALUES (1, 'user:9', 'aged', '{{}}', {changed}, 't', {})",
            interval(age)
        );
        as_service(kind, url, &entry).await.unwrap();
        let newest = "SELECT max(id) FROM outbox_audit_log";
        let id = count(server, newest).await;
        let done = as_service(kind, url, &format!("DELETE FROM {relation} WHERE id = {id}")).await;
        if let Err(refused) = &done {
            assert!(!is_deleted && refused.to_string().contains("the audit log is append-only"), "{refused}");
        }
        assert_eq!(count(server, newest).await < id, is_deleted, "{changed} {age}");
    }
}

/// While a right on one table is missing, the effects in that table wait and no attempt is counted. They are applied
/// when the right is granted again.
async fn revoked_right_delays_effects(server: &DatabaseServer, launch: &Launch, api: &Api) {
    const BUYER: i64 = 55;
    const ORDERS: usize = 12;
    let (table, user) = match server.kind() {
        ServerKind::MariaDb => ("rights.buyer_credit", "'shop_service'@'%'"),
        ServerKind::Postgres => ("buyer_credit", "shop_service"),
    };
    let right = async |change: String| {
        let url = server.url("rights", server.port());
        as_service(server.kind(), &url, &change).await.unwrap();
    };
    right(format!("REVOKE INSERT, UPDATE ON {table} FROM {user}")).await;
    for _ in 0..ORDERS {
        let product = api.list_product(1, "Desk lamp").await.unwrap().id("productId");
        let order = api.place_order(BUYER, product).await.unwrap().id("orderId");
        assert!(api.cancel(BUYER, order).await.unwrap().done());
    }
    let within = handover_contract::TIMEOUT;
    eventually(within, async || {
        let log = launch.log();
        let retried = log.matches("database refuses statements; consumption paused, retrying").count();
        if retried > 2 * ORDERS { Ok(()) } else { Err(format!("retried {retried} times").into()) }
    })
    .await;
    let credit = format!("SELECT count(*) FROM buyer_credit WHERE buyer_id = {BUYER}");
    assert_eq!(count(server, &credit).await, 0);
    assert_eq!(count(server, "SELECT count(*) FROM dead_letters").await, 0);
    let log = launch.log();
    assert_eq!(log.matches("[ALERT]").count(), 1, "{log}");
    assert!(log.contains("missing rights") && !log.contains("database unavailable"), "{log}");
    right(format!("GRANT INSERT, UPDATE ON {table} TO {user}")).await;
    eventually(within, async || {
        let applied = format!("{credit} AND cancelled_by_buyer = {ORDERS}");
        if count(server, &applied).await == 1 { Ok(()) } else { Err("effects are missing".into()) }
    })
    .await;
    let counted = "SELECT count(*) FROM event_consume_log \
                   WHERE consumer = 'buyer-credit' AND (attempts > 1 OR status <> 'SUCCESS')";
    assert_eq!(count(server, counted).await, 0, "an attempt was counted");
}

async fn count(server: &DatabaseServer, sql: &str) -> i64 {
    let url = server.url("rights", server.port());
    let sql = AssertSqlSafe(sql.to_owned());
    match server.kind() {
        ServerKind::MariaDb => {
            let mut connection = MySqlConnection::connect(&url).await.unwrap();
            sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
        }
        ServerKind::Postgres => {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
        }
    }
}

/// Returns a script of `.deploy` with other names of users and database, because other tests share the server.
fn script(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deploy").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
    let names = [
        ("handover_owner", "shop_owner"),
        ("'handover'@", "'shop_service'@"),
        ("ROLE handover ", "ROLE shop_service "),
        (" TO handover;", " TO shop_service;"),
        ("DATABASE handover", "DATABASE rights"),
        ("\\connect handover", "\\connect rights"),
        ("ON handover.", "ON rights."),
    ];
    names.iter().fold(lines.join("\n"), |text, (from, to)| text.replace(from, to))
}

/// Runs a script as administrator. The part after `\connect` runs in the database that `\connect` names.
async fn administer(server: &DatabaseServer, script: &str) {
    let (first, second) = script.split_once("\\connect rights").unwrap_or((script, ""));
    for statement in first.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        server.execute(statement).await.unwrap();
    }
    if !second.is_empty() {
        let mut connection = PgConnection::connect(&server.url("rights", server.port())).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(second.to_owned())).execute(&mut connection).await.unwrap();
    }
}

fn on(launch: Launch, url: &str) -> Launch {
    launch
        .set("HANDOVER_DATABASE__URL", url)
        .set("HANDOVER_AUTH__JWT_SECRET", &"5f".repeat(32))
        .set("HANDOVER_GATEWAY__SECRET", &format!("whsec_{}", "5f".repeat(32)))
}

fn migrate(url: &str) {
    let (_folder, launch) = fresh();
    let (code, out, err) = on(launch, url).run(&["migrate"]).unwrap();
    assert_eq!(code, Some(0), "{out}{err}");
}

async fn as_service(kind: ServerKind, url: &str, sql: &str) -> Result<(), sqlx::Error> {
    let sql = AssertSqlSafe(sql.to_owned());
    match kind {
        ServerKind::MariaDb => {
            sqlx::raw_sql(sql).execute(&mut MySqlConnection::connect(url).await?).await.map(drop)
        }
        ServerKind::Postgres => {
            sqlx::raw_sql(sql).execute(&mut PgConnection::connect(url).await?).await.map(drop)
        }
    }
}
