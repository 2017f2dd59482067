//! Outbox rows that a person inserts by SQL with the frozen columns only.

use handover_contract::samples::{BOOK_ADDED, BOOK_LENT, aggregate, due_at, event, start, unordered};
use handover_events::{EventId, Partition, PartitionSet, TenantId};
use handover_outbox::ports::{DueQuery, OnFailed, OutboxFilter, OutboxRow, Store};
use handover_tests::servers::database::ServerKind;

use super::{Fixture, append, on_every_server};

on_every_server!(
    row_inserted_with_frozen_columns_is_due,
    database_rejects_row_that_relay_cannot_read,
    partition_column_equals_partition_computed_by_domain,
    unreadable_row_does_not_block_other_rows,
    delayed_new_row_does_not_block_later_events_of_aggregate,
);

const INSERT: &str = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, status, \
    retry_count, next_retry_time, create_time, update_time) VALUES ('by-hand', 'BOOK_ADDED', 'Book', 900001, '{}', \
    'NEW', 0, NULL, '2026-02-04 10:30:00', '2026-02-04 10:30:00')";

async fn row_inserted_with_frozen_columns_is_due(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    fixture.outside(INSERT).await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    let due = view.outbox_view().outbox_due(&DueQuery { limit: 10, ..due_at(start()) }).await.unwrap().rows;
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].create_time.to_rfc3339(), "2026-02-04T10:30:00+00:00");
    assert_eq!(
        (due[0].aggregate.tenant, due[0].aggregate_seq, due[0].trace_id()),
        (TenantId::DEFAULT, 0, "by-hand")
    );
    assert_eq!((due[0].retry_count, due[0].max_retry_count), (0, 3));
}

async fn database_rejects_row_that_relay_cannot_read(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let too_long = format!("'{}'", "x".repeat(65));
    let bad = [
        ("'by-hand'", "'by hand'"),
        ("'by-hand'", "''"),
        ("'by-hand'", "'by-hand\u{e9}'"),
        ("'by-hand'", too_long.as_str()),
        ("'2026-02-04 10:30:00'", "'soon'"),
        ("'NEW'", "'new'"),
        ("'NEW', 0", "'NEW', -1"),
    ];
    // The test server has no strict mode; in practice the client sets the SQL mode, and so does this test.
    let strict = match kind {
        ServerKind::MariaDb => "SET sql_mode = 'STRICT_ALL_TABLES,ALLOW_INVALID_DATES'; ",
        ServerKind::Postgres => "",
    };
    let times: &[&str] = match kind {
        ServerKind::MariaDb => &["'2026-00-10'", "'2026-02-31 10:30:00'", "'0000-00-00'", "'2026-02-00'"],
        ServerKind::Postgres => {
            &["'infinity'", "'-infinity'", "'2026-02-31'", "'10000-01-01'", "'0044-03-15 BC'"]
        }
    };
    let times = times.iter().flat_map(|bad| [("'2026-02-04 10:30:00'", *bad), ("NULL", *bad)]);
    for (good, bad) in bad.into_iter().chain(times) {
        let insert = format!("{strict}{}", INSERT.replacen(good, bad, 1));
        assert!(fixture.outside(&insert).await.is_err(), "{bad}");
    }
    let metadata = INSERT.replace("update_time)", "update_time, metadata)");
    for bad in ["[]", "{", "1"] {
        let insert = metadata.replace("'2026-02-04 10:30:00')", &format!("'2026-02-04 10:30:00', '{bad}')"));
        assert!(fixture.outside(&insert).await.is_err(), "{bad}");
    }
    fixture.outside(INSERT).await.unwrap();
}

async fn partition_column_equals_partition_computed_by_domain(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let mut number: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut expected = Vec::new();
    let mut rows = Vec::new();
    for round in 0..300 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let aggregate = match round {
            0 => i64::MAX,
            1 => i64::MIN,
            _ => number.cast_signed() >> (number % 60),
        };
        let tenant = TenantId::try_from(1 + i64::try_from(number >> 33).unwrap()).unwrap();
        rows.push(format!(
            "('{round}', 't', 'Book', {aggregate}, '{{}}', {tenant}, '2026-02-04', '2026-02-04')"
        ));
        expected.push((round.to_string(), Partition::of(tenant, aggregate)));
    }
    let sql = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, tenant_id, \
               create_time, update_time) VALUES";
    fixture.outside(&format!("{sql} {}", rows.join(", "))).await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    for partition in Partition::all() {
        let own: PartitionSet = [partition].into_iter().collect();
        let due = view
            .outbox_view()
            .outbox_due(&DueQuery { partitions: own, limit: 300, ..due_at(start()) })
            .await
            .unwrap();
        let mut found: Vec<&str> = due.rows.iter().map(|row| row.event_id.as_str()).collect();
        let mut expected: Vec<&str> =
            expected.iter().filter(|(_, own)| *own == partition).map(|(id, _)| id.as_str()).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "partition {}", partition.number());
    }
}

async fn unreadable_row_does_not_block_other_rows(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    append(&fixture.store, &[event("first", 900_001, 1)]).await.unwrap();
    fixture.outside(INSERT).await.unwrap();
    append(&fixture.store, &[event("last", 900_001, 2)]).await.unwrap();
    // Constraints prevent unreadable values, but an administrator may have disabled the constraints.
    let (without, unreadable) = match kind {
        ServerKind::MariaDb => ("SET check_constraint_checks = 0, sql_mode = ''; ", "'2026-00-10'"),
        ServerKind::Postgres => (
            "ALTER TABLE outbox_events DROP CONSTRAINT outbox_events_create_time_check; \
             ALTER TABLE outbox_events DROP CONSTRAINT outbox_events_next_retry_time_check; ",
            "'infinity'",
        ),
    };
    let change = async |with: &str, set: &str| {
        let update = format!("{with}UPDATE outbox_events SET {set} WHERE event_id = 'by-hand'");
        fixture.outside(&update).await.unwrap();
    };
    change(without, &format!("create_time = {unreadable}")).await;
    assert_valid_rows_are_read(&fixture).await;
    assert_unreadable(&fixture, "create_time").await;
    // MariaDB checks all constraints of a row at every change of the row, so they stay disabled for the next changes.
    let with = if kind == ServerKind::MariaDb { without } else { "" };
    change(with, "status = 'FAILED'").await;
    assert_valid_rows_are_read(&fixture).await;
    change(with, &format!("status = 'RETRY', next_retry_time = {unreadable}, create_time = update_time"))
        .await;
    let mut view = fixture.store.view().await.unwrap();
    view.outbox_view().outbox_due(&due_at(start())).await.unwrap();
    assert!(
        view.outbox_view()
            .waiting_page(&unordered(), OnFailed::Hold, None, start(), None, 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert_unreadable(&fixture, "next_retry_time").await;
}

/// Checks that the row inserted by SQL is listed as unreadable because of this column.
async fn assert_unreadable(fixture: &Fixture, column: &str) {
    let mut view = fixture.store.view().await.unwrap();
    let found = view.outbox_view().unreadable_rows(None, None, 10).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].event_id.as_ref().map(EventId::as_str), Some("by-hand"));
    assert_eq!((found[0].tenant, found[0].column), (Some(TenantId::DEFAULT), column));
}

/// Checks that the queries of the outbox neither return the unreadable row nor fail because of it.
async fn assert_valid_rows_are_read(fixture: &Fixture) {
    let mut view = fixture.store.view().await.unwrap();
    let any = OutboxFilter::default();
    let ids = |rows: Vec<OutboxRow>| rows.into_iter().map(|row| row.event_id.into()).collect::<Vec<String>>();
    let due = view.outbox_view().outbox_due(&DueQuery { limit: 10, ..due_at(start()) }).await.unwrap();
    let due_ids: Vec<i64> = due.rows.iter().map(|row| row.id).collect();
    assert_eq!(ids(due.rows), ["first", "last"]);
    for limit in [2, 10] {
        let query = DueQuery { limit, ..due_at(start()) };
        assert_eq!(view.outbox_view().outbox_due_ids(&query, i64::MAX).await.unwrap(), due_ids);
    }
    // The unreadable row must not make a page shorter than its limit, because callers treat a short page as the last.
    for limit in [2, 10] {
        assert_eq!(ids(view.outbox_view().outbox_page(&any, None, limit).await.unwrap()), ["last", "first"]);
        assert_eq!(ids(view.outbox_view().outbox_after(&any, None, limit).await.unwrap()), ["first", "last"]);
    }
    assert_eq!(ids(view.outbox_view().outbox_about(&[aggregate(900_001)]).await.unwrap()), ["first", "last"]);
    let named = ["first", "by-hand", "last"].map(|id| id.parse().unwrap());
    assert_eq!(ids(view.outbox_view().outbox_by_event(&named).await.unwrap()), ["first", "last"]);
    let types = [BOOK_ADDED, BOOK_LENT];
    let unapplied = view.outbox_view().unapplied("consumer", &types, 0, &[aggregate(900_001)]).await.unwrap();
    assert_eq!(ids(unapplied.into_iter().map(|it| it.event).collect()), ["first", "last"]);
    assert!(view.outbox_view().blocked_page(&unordered(), None, None, 10).await.unwrap().is_empty());
    assert!(
        view.outbox_view()
            .waiting_page(&unordered(), OnFailed::Hold, None, start(), None, 10)
            .await
            .unwrap()
            .is_empty()
    );
    view.outbox_view().outbox_counts(None, i64::MAX).await.unwrap();
    view.outbox_view().outbox_backlog(0..i64::MAX, start()).await.unwrap();
}

/// The row has a due time in the future, like a local time from a session in another time zone.
async fn delayed_new_row_does_not_block_later_events_of_aggregate(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    fixture.outside(&INSERT.replacen("NULL", "'2026-02-05 10:30:00'", 1)).await.unwrap();
    append(&fixture.store, &[event("later", 900_001, 1)]).await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    for on_failed in [OnFailed::Continue, OnFailed::Hold] {
        let due = view
            .outbox_view()
            .outbox_due(&DueQuery { on_failed, limit: 10, ..due_at(start()) })
            .await
            .unwrap();
        assert_eq!(due.rows.len(), 1);
        assert_eq!(due.rows[0].event_id.as_str(), "later");
    }
    let waiting =
        view.outbox_view().waiting_page(&unordered(), OnFailed::Hold, None, start(), None, 10).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].effect.event_id.as_str(), "by-hand");
    assert_eq!(waiting[0].effect.until.unwrap().to_rfc3339(), "2026-02-05T10:30:00+00:00");
}
