//! Rows that a person writes into the outbox with the frozen columns alone.

use handover_application::ports::{OnFailed, Store};
use handover_contract::samples::start;
use handover_domain::{Partition, PartitionSet, TenantId};
use handover_tests::servers::database::ServerKind;

use super::{Fixture, on_every_server};

on_every_server!(
    a_row_inserted_by_hand_with_the_frozen_columns_alone_is_due,
    the_database_refuses_a_row_the_relay_could_not_read,
    the_partition_column_is_the_domains_partition,
);

const BY_HAND: &str = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, status, \
    retry_count, next_retry_time, create_time, update_time) VALUES ('by-hand', 'ORDER_CREATED', 'Order', 900001, '{}', \
    'NEW', 0, NULL, '2026-02-04 10:30:00', '2026-02-04 10:30:00')";

async fn a_row_inserted_by_hand_with_the_frozen_columns_alone_is_due(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    fixture.outside(BY_HAND).await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    let due = view.outbox_due(PartitionSet::ALL, start(), OnFailed::Continue, 10).await.unwrap();
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].create_time.to_rfc3339(), "2026-02-04T10:30:00+00:00");
    assert_eq!(
        (due[0].aggregate.tenant, due[0].aggregate_seq, due[0].trace_id()),
        (TenantId::DEFAULT, 0, "by-hand")
    );
    assert_eq!((due[0].retry_count, due[0].max_retry_count), (0, 3));
}

async fn the_database_refuses_a_row_the_relay_could_not_read(kind: ServerKind) {
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
    // The server of these tests has no strict mode of its own: the person's client decides, so it is set here.
    let strict = match kind {
        ServerKind::MariaDb => "SET sql_mode = 'STRICT_ALL_TABLES'; ",
        ServerKind::Postgres => "",
    };
    for (good, bad) in bad {
        let insert = format!("{strict}{}", BY_HAND.replacen(good, bad, 1));
        assert!(fixture.outside(&insert).await.is_err(), "{bad}");
    }
    let metadata = BY_HAND.replace("update_time)", "update_time, metadata)");
    for bad in ["[]", "{", "1"] {
        let insert = metadata.replace("'2026-02-04 10:30:00')", &format!("'2026-02-04 10:30:00', '{bad}')"));
        assert!(fixture.outside(&insert).await.is_err(), "{bad}");
    }
    fixture.outside(BY_HAND).await.unwrap();
}

async fn the_partition_column_is_the_domains_partition(kind: ServerKind) {
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
            "('{round}', 't', 'Order', {aggregate}, '{{}}', {tenant}, '2026-02-04', '2026-02-04')"
        ));
        expected.push((round.to_string(), Partition::of(tenant, aggregate)));
    }
    let sql = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, tenant_id, \
               create_time, update_time) VALUES";
    fixture.outside(&format!("{sql} {}", rows.join(", "))).await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    for partition in Partition::all() {
        let own: PartitionSet = [partition].into_iter().collect();
        let due = view.outbox_due(own, start(), OnFailed::Continue, 300).await.unwrap();
        let mut found: Vec<&str> = due.iter().map(|row| row.event_id.as_str()).collect();
        let mut expected: Vec<&str> =
            expected.iter().filter(|(_, own)| *own == partition).map(|(id, _)| id.as_str()).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "partition {}", partition.number());
    }
}
