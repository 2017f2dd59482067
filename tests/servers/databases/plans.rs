//! Plans: the relay's scan takes what is pending in the order of ids, and sweeps find their rows by an index, whatever
//! else is in the table.

use handover_contract::PATIENCE;
use handover_contract::samples::{due_at, event, later, start};
use handover_outbox::ports::{DueQuery, OnFailed};
use handover_tests::process::eventually;
use handover_tests::servers::database::ServerKind;
use marketplace_contract::samples::{order_id, user};
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

use super::{Fixture, append, on_every_server};
use handover_outbox::ports::Store;

on_every_server!(
    the_relay_scans_what_is_pending_in_the_order_of_ids_and_sorts_nothing,
    sweeps_and_long_pages_are_served_by_an_index_and_sort_no_more_than_a_page,
);

fn check(kind: ServerKind, plan: &str) {
    match kind {
        ServerKind::MariaDb => {
            let of = |table: &str| {
                let lines: Vec<&str> =
                    plan.lines().filter(|line| line.contains(&format!("table={table} "))).collect();
                assert!(!lines.is_empty(), "{plan}");
                lines
            };
            of("o").iter().for_each(|line| assert!(line.contains("key=idx_outbox_pending "), "{plan}"));
            of("e").iter().for_each(|line| assert!(line.contains("key=idx_outbox_order "), "{plan}"));
            assert!(!plan.contains("filesort") && !plan.contains("temporary"), "{plan}");
        }
        ServerKind::Postgres => {
            assert!(plan.contains("Index Scan using idx_outbox_pending on outbox_events o"), "{plan}");
            let waiting = ["idx_outbox_waiting", "idx_outbox_order"];
            let by = |name: &&str| {
                plan.contains(&format!("Index Scan using {name} on outbox_events e_1"))
                    || plan.contains(&format!("Index Only Scan using {name} on outbox_events e_1"))
            };
            assert!(waiting.iter().any(by), "{plan}");
            assert!(!plan.contains("Seq Scan") && !plan.contains("Sort"), "{plan}");
        }
    }
}

/// Settled rows, made by the server itself.
async fn fill(fixture: &Fixture, kind: ServerKind, rows: u32) {
    let columns = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, status, \
                   create_time, update_time, sent_time)";
    let numbers = match kind {
        ServerKind::MariaDb => format!("seq_1_to_{rows}"),
        ServerKind::Postgres => format!("generate_series(1, {rows}) AS seq"),
    };
    let sql = format!(
        "{columns} SELECT CONCAT('sent-', seq), 'BOOK_LENT', 'Book', seq, '{{}}', 'SENT', '2026-01-01', '2026-01-01', \
         '2026-01-01' FROM {numbers}"
    );
    fixture.outside(&sql).await.unwrap();
}

async fn the_relay_scans_what_is_pending_in_the_order_of_ids_and_sorts_nothing(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    for on_failed in [OnFailed::Continue, OnFailed::Hold] {
        check(
            kind,
            &fixture.store.explain_due(&DueQuery { on_failed, limit: 200, ..due_at(start()) }).await.unwrap(),
        );
    }
    fill(&fixture, kind, 20_000).await;
    append(&fixture.store, &[event("a", 1, 1), event("b", 2, 1)]).await.unwrap();
    for analyze in [false, true] {
        if analyze {
            let sql = match kind {
                ServerKind::MariaDb => "ANALYZE TABLE outbox_events",
                ServerKind::Postgres => "ANALYZE outbox_events",
            };
            fixture.outside(sql).await.unwrap();
        }
        for on_failed in [OnFailed::Continue, OnFailed::Hold] {
            check(
                kind,
                &fixture
                    .store
                    .explain_due(&DueQuery { on_failed, limit: 200, ..due_at(start()) })
                    .await
                    .unwrap(),
            );
        }
    }
}

/// PostgreSQL may keep the plan that it made when there was nothing to plan for. MariaDB plans each execution anew: as above.
#[test]
fn a_scan_that_postgres_planned_on_an_empty_table_reads_what_is_due_and_no_more() {
    handover_contract::run(async {
        let kind = ServerKind::Postgres;
        let fixture = Fixture::new(kind).await;
        let mut view = fixture.store.view().await.unwrap();
        for _ in 0..20 {
            let due =
                view.outbox_view().outbox_due(&DueQuery { limit: 200, ..due_at(start()) }).await.unwrap();
            assert!(due.is_empty());
        }
        fill(&fixture, kind, 100_000).await;
        append(&fixture.store, &[event("a", 1, 1)]).await.unwrap();
        for _ in 0..20 {
            let due =
                view.outbox_view().outbox_due(&DueQuery { limit: 200, ..due_at(later(60)) }).await.unwrap();
            assert_eq!(due.len(), 1);
        }
        drop(view);
        // What a connection has read is counted when it ends.
        fixture.store.close().await;
        let read = rows_read(&fixture).await;
        assert!(read < 1_000, "{read} rows were read for one that was due, 20 times");
    });
}

/// Rows of the outbox that were read since the database was made.
async fn rows_read(fixture: &Fixture) -> i64 {
    let mut connection = PgConnection::connect(&fixture.database.url()).await.unwrap();
    eventually(PATIENCE, async || {
        let sql = "SELECT COALESCE(seq_tup_read + idx_tup_fetch, 0) FROM pg_stat_user_tables \
                   WHERE relname = 'outbox_events'";
        let read: i64 = sqlx::query_scalar(sql).fetch_one(&mut connection).await?;
        // Each scan read what was due at least.
        if read >= 20 { Ok(read) } else { Err(format!("{read} rows were read").into()) }
    })
    .await
}

/// Holds, coupons, orders and refunds that are over and done with, and a long ledger of one user; made by the server.
async fn fill_assets(fixture: &Fixture, kind: ServerKind, rows: u32) {
    let numbers = match kind {
        ServerKind::MariaDb => format!("seq_1_to_{rows}"),
        ServerKind::Postgres => format!("generate_series(1, {rows}) AS seq"),
    };
    let day = "'2026-01-01'";
    for sql in [
        format!(
            "INSERT INTO asset_holds (tenant_id, order_id, asset, user_id, amount, status, reverted, version, \
             create_time, update_time) SELECT 1, seq, 'wallet', 7, 1, 'COMMITTED', 0, 2, {day}, {day} FROM {numbers}"
        ),
        format!(
            "INSERT INTO coupons (id, tenant_id, user_id, discount_minor, min_spend_minor, expires_at, status, \
             version, create_time, update_time) SELECT seq, 1, 7, 1, 1, {day}, 'EXPIRED', 2, {day}, {day} FROM {numbers}"
        ),
        format!(
            "INSERT INTO orders (id, order_no, tenant_id, product_id, buyer_id, seller_id, status, total_minor, \
             payable_minor, version, create_time, update_time) \
             SELECT seq, 'O', 1, seq, 2, 1, 'completed', 1, 1, 4, {day}, {day} FROM {numbers}"
        ),
        format!(
            "INSERT INTO refunds (id, tenant_id, order_id, payment_id, amount_minor, currency, cause, reason, status, \
             attempts, next_attempt_time, version, create_time, update_time) \
             SELECT seq, 1, seq, seq, 1, 'CNY', 'buyer', '', 'SUCCESS', 1, NULL, 2, {day}, {day} FROM {numbers}"
        ),
        format!(
            "INSERT INTO asset_operations (tenant_id, idempotency_key, asset, kind, user_id, amount, create_time) \
             SELECT 1, CONCAT('k', seq), 'wallet', 'DEPOSIT', 7, 1, {day} FROM {numbers}"
        ),
        format!(
            "INSERT INTO ledger_entries (tenant_id, idempotency_key, account, user_id, amount, create_time) \
             SELECT 1, CONCAT('k', seq), 'wallet', 7, 1, {day} FROM {numbers}"
        ),
    ] {
        fixture.outside(&sql).await.unwrap();
    }
}

async fn sweeps_and_long_pages_are_served_by_an_index_and_sort_no_more_than_a_page(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    for filled in [false, true] {
        if filled {
            fill_assets(&fixture, kind, 20_000).await;
            for table in ["asset_holds", "coupons", "orders", "refunds", "asset_operations", "ledger_entries"]
            {
                let sql = match kind {
                    ServerKind::MariaDb => format!("ANALYZE TABLE {table}"),
                    ServerKind::Postgres => format!("ANALYZE {table}"),
                };
                fixture.outside(&sql).await.unwrap();
            }
        }
        for (index, plan) in fixture.store.explain_sweeps(start(), order_id(7), user(7)).await.unwrap() {
            match kind {
                ServerKind::MariaDb => assert!(plan.contains(&format!("key={index} ")), "{index}: {plan}"),
                ServerKind::Postgres => {
                    assert!(plan.contains(&format!("using {index} on")), "{index}: {plan}")
                }
            }
            // Pages of accounts are merged, and sorted once they are read.
            let sorted = plan.contains("filesort") || plan.contains("Sort");
            assert!(!sorted || index == "idx_ledger_account", "{index}: {plan}");
            assert!(!plan.contains("Seq Scan"), "{index}: {plan}");
        }
    }
}
