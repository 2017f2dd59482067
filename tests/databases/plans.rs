//! The plan of the relay's scan: what is pending, in the order of ids, whatever else is in the table.

use handover_application::ports::OnFailed;
use handover_domain::PartitionSet;
use handover_tests::samples::{event, later, start};
use handover_tests::servers::database::ServerKind;

use crate::{Fixture, append, on_every_server};
use handover_application::ports::Store;

on_every_server!(
    the_relay_scans_what_is_pending_in_the_order_of_ids_and_sorts_nothing,
    a_scan_prepared_on_an_empty_table_stays_fast,
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
        "{columns} SELECT CONCAT('sent-', seq), 'ORDER_PAID', 'Order', seq, '{{}}', 'SENT', '2026-01-01', '2026-01-01', \
         '2026-01-01' FROM {numbers}"
    );
    fixture.outside(&sql).await.unwrap();
}

async fn the_relay_scans_what_is_pending_in_the_order_of_ids_and_sorts_nothing(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    for on_failed in [OnFailed::Continue, OnFailed::Hold] {
        check(kind, &fixture.store.explain_due(on_failed, 200).await.unwrap());
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
            check(kind, &fixture.store.explain_due(on_failed, 200).await.unwrap());
        }
    }
}

/// A server may keep the plan that it made when there was nothing to plan for.
async fn a_scan_prepared_on_an_empty_table_stays_fast(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let mut view = fixture.store.view().await.unwrap();
    for _ in 0..20 {
        let due = view.outbox_due(PartitionSet::ALL, start(), OnFailed::Continue, 200).await.unwrap();
        assert!(due.is_empty());
    }
    fill(&fixture, kind, 100_000).await;
    append(&fixture.store, &[event("a", 1, 1)]).await.unwrap();
    let begun = std::time::Instant::now();
    for _ in 0..20 {
        let due = view.outbox_due(PartitionSet::ALL, later(60), OnFailed::Continue, 200).await.unwrap();
        assert_eq!(due.len(), 1);
    }
    // By the index it is far below a millisecond each, through the table some twenty.
    let took = begun.elapsed() / 20;
    assert!(took < std::time::Duration::from_millis(10), "{took:?} for one of 100,000 rows");
}
