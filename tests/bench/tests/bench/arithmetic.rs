//! Computation of the figures: percentiles, medians, rates, ratios, steps; and the messages of the baseline.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_bench::baseline::Event;
use handover_bench::cli::Mode;
use handover_bench::event_latencies::{Latencies, percentile_ms};
use handover_bench::measurement::{Measurement, steps};
use handover_bench::memory::mib;
use handover_bench::port_recorder::EventTimes;
use handover_bench::report::{Better, Figure, three_digits};
use handover_bench::series::{Series, per_second};
use handover_bench::statement_counter::{StatementTotals, kind_of};
use handover_events::{AggregateRef, EventId, OutboxStatus, TenantId};
use handover_outbox::ports::{EventMetadata, IdleConsumers, OutboxRow};
use handover_outbox::relay::envelope_of;
use tokio::time::Instant;

#[test]
fn percentile_is_one_of_the_durations() {
    let durations: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
    assert_eq!([0.5, 0.99, 1.0].map(|share| percentile_ms(&durations, share)), [100.0, 198.0, 200.0]);
    assert_eq!(percentile_ms(&[], 0.5), 0.0);
}

#[test]
fn event_without_all_times_is_error() {
    let now = Instant::now();
    let times = EventTimes { confirmed: Some(now), ..EventTimes::default() };
    assert!(Latencies::default().add(now, times).is_err());
}

#[test]
fn series_median_ignores_outlier() {
    let series = Series::new(vec![100.0, 1.0, 3.0]);
    assert_eq!((series.median, series.least, series.greatest), (3.0, 1.0, 100.0));
    assert_eq!(series.rounds, [100.0, 1.0, 3.0]);
    assert_eq!(Series::new(vec![1.0, 2.0]).median, 1.5);
    assert_eq!(Series::new(Vec::new()).median, 0.0);
}

#[test]
fn rate_of_zero_duration_is_zero() {
    assert_eq!(per_second(10, Duration::from_secs(4)), 2.5);
    assert_eq!(per_second(10, Duration::ZERO), 0.0);
}

fn ratio(better: Better, service: Vec<f64>, baseline: Vec<f64>) -> f64 {
    let unit = ("unit", better);
    Figure::new(Mode::Drain, "what", unit, Series::new(service), Series::new(baseline)).ratio
}

#[test]
fn ratio_is_above_one_if_service_is_better_and_zero_without_baseline() {
    assert_eq!(ratio(Better::More, vec![50.0], vec![100.0]), 0.5);
    assert_eq!(ratio(Better::Less, vec![50.0], vec![100.0]), 2.0);
    assert_eq!(ratio(Better::More, vec![1.0], vec![]), 0.0);
}

#[test]
fn numbers_below_1000_are_shown_with_three_digits() {
    assert_eq!([123.4, 12.34, 1.234].map(three_digits), ["123", "12.3", "1.23"]);
}

#[test]
fn step_times_are_per_1000_orders_and_sorted_longest_first_with_other_time_last() {
    let ms = Duration::from_millis;
    let totals = BTreeMap::from([("commit".to_owned(), StatementTotals { statements: 4, time: ms(30) })]);
    let round = Measurement::new(2_000, ms(100)).with_step("publish", ms(50)).with_statements(totals);
    let steps: Vec<_> =
        steps(&[round]).into_iter().map(|step| (step.name, step.ms, step.statements)).collect();
    let expected =
        [("publish", 25.0, None), ("commit", 15.0, Some(2.0)), ("other (waiting, CPU)", 10.0, None)];
    assert_eq!(steps, expected.map(|(name, ms, statements)| (name.to_owned(), ms, statements)));
}

#[test]
fn other_time_is_multiplied_by_the_number_of_workers() {
    let round = Measurement::new(1_000, Duration::from_millis(100)).by_workers(4);
    assert_eq!(steps(&[round])[0].ms, 400.0);
}

#[test]
fn memory_is_read_by_field_name() {
    let status = "VmPeak:\t  9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 512 kB\n";
    assert_eq!((mib(status, "VmHWM:"), mib(status, "VmRSS:")), (Some(2.0), Some(0.5)));
    assert_eq!(mib("VmHWM:\tmuch\n", "VmHWM:"), None);
}

#[test]
fn statement_kind_is_operation_and_table() {
    let kinds = [
        ("BEGIN IMMEDIATE", "begin"),
        ("START TRANSACTION", "begin"),
        ("COMMIT", "commit"),
        ("INSERT INTO orders (id) VALUES (?)", "insert orders"),
        ("INSERT INTO a VALUES (?); INSERT INTO b VALUES (?)", "insert a, b"),
        ("WITH deferred_0 AS (INSERT INTO a VALUES (?)) UPDATE b SET c = ?", "insert a; change b"),
        ("UPDATE outbox_events FORCE INDEX (uk_event_id) SET status = 'SENT'", "change outbox_events"),
        ("SELECT a FROM b WHERE c; UPDATE d SET e = ?", "change d"),
        ("WITH a AS (SELECT b FROM c FOR UPDATE), d AS (UPDATE e SET f = ?) SELECT b FROM a", "change e"),
        ("WITH a AS (SELECT b FROM c FOR UPDATE SKIP LOCKED) UPDATE e SET f = ?", "change e"),
        ("SELECT a FROM b WHERE c FOR UPDATE SKIP LOCKED", "read b"),
        ("DELETE FROM outbox_broker_messages WHERE id IN (?)", "delete outbox_broker_messages"),
        ("SELECT o.id, (SELECT 1) FROM outbox_events o WHERE x", "read outbox_events"),
        ("SELECT * FROM (SELECT o.next FROM outbox_events o) earliest", "read outbox_events"),
        ("SELECT clock_timestamp() AS now", "read"),
    ];
    for (sql, kind) in kinds {
        assert_eq!(kind_of(sql), kind);
    }
}

#[test]
fn baseline_message_has_same_bytes_as_service() {
    let payload =
        r#"{"orderId":17,"orderNo":"202602041030001234","buyerId":3,"sellerId":4,"totalAmount":88.50}"#;
    for at in ["2026-02-04T10:30:00Z", "2026-02-04T10:30:00.120Z", "2026-02-04T10:30:00.123456Z"] {
        let at: DateTime<Utc> = at.parse().unwrap();
        let id = "01930000-0000-7000-8000-000000000001";
        let row = OutboxRow {
            id: 5,
            event_id: EventId::try_from(id.to_owned()).unwrap(),
            event_type: "ORDER_PAID".to_owned(),
            aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "Order".to_owned(), id: 17.into() },
            aggregate_seq: 2,
            payload: payload.to_owned(),
            metadata: EventMetadata { trace_id: Some("t-1".to_owned()), ..EventMetadata::default() },
            status: OutboxStatus::New,
            retry_count: 0,
            max_retry_count: 3,
            idle_consumers: IdleConsumers::default(),
            routing_key: None,
            next_retry_time: None,
            last_error: None,
            create_time: at,
            update_time: at,
            sent_time: None,
            released_time: None,
            erased_time: None,
            erased_reason: None,
            restored_time: None,
        };
        let event = Event {
            id: 5,
            event_id: id.to_owned(),
            event_type: "ORDER_PAID".to_owned(),
            aggregate_type: "Order".to_owned(),
            aggregate_id: 17,
            aggregate_seq: 2,
            tenant_id: 1,
            payload: payload.to_owned(),
            trace_id: "t-1".to_owned(),
            create_time: at,
        };
        assert_eq!(event.body(), envelope_of(&row).unwrap().to_json());
    }
}
