//! Query plans on SQLite of the statements that the service runs continuously.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use chrono::DateTime;
use handover_events::{AggregateRef, EventId, OutboxStatus, PartitionSet, TenantId};
use handover_outbox::ports::{
    AfterAttempt, ArchiveQueries as _, AuditFilter, AuditQueries as _, BodyForm, Changed, ClaimId,
    ConsumeQueries as _, DeadDeliveries, DeadLetterQueries as _, DeliveryFilter, DeliveryState, DueQuery,
    EndpointHealth, EndpointId, EndpointStatus, Erasure, ErasureRepo as _, EventMetadata, FailedPublish,
    IdleConsumers, MaskedTexts, NewEvent, NewWebhookDelivery, OnFailed, OperatorQueries as _,
    OperatorRepo as _, OutboxFilter, OutboxQueries as _, OutboxRepo as _, ReceivedEvent, Redrive,
    SettledDelivery, WebhookCapacity, WebhookClaim, WebhookEndpoint, WebhookQueries as _, WebhookRepo as _,
};
use uuid::Uuid;

use super::explaining::ExplainingConnection;
use super::{due, store, unordered};
use crate::session::Session;
use crate::store::SqlStore;

/// SQLite plans the hot statements without statistics until an operator runs ANALYZE, so both cases are tested.
#[tokio::test]
async fn hot_statements_use_an_index_with_and_without_statistics() {
    let directory = tempfile::tempdir().unwrap();
    check_hot_statements(&store(&directory).await, "fresh").await;
    let filled = store(&directory).await;
    let mut session = filled.writing().await.unwrap();
    let day = "2026-01-01T00:00:00.000000Z";
    for into in [
        "outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, status, create_time, update_time, \
         sent_time) SELECT 'sent-' || n, 'BOOK_LENT', 'Book', n, '{}', 'SENT', '{day}', '{day}', '{day}'",
        "event_consume_log (event_id, event_type, consumer, consume_time, status, attempts, cost_ms, payload_hash, \
         trace_id, tenant_id, aggregate_type, aggregate_id, aggregate_seq) \
         SELECT 'sent-' || n, 'BOOK_LENT', 'c', '{day}', 'SUCCESS', 1, 1, '', '', 1, 'Book', n, 0",
        "dead_letters (queue, message_key, tenant_id, body, reason, died_at, status) \
         SELECT 'q', 'sent-' || n, 1, '{}', '', '{day}', 'DISCARDED'",
        "webhook_deliveries (endpoint_id, tenant_id, event_id, redelivery, event_type, order_key, body, state, due_time, \
         create_time, settle_time) SELECT '00000000-0000-0000-0000-000000000001', 1, 'sent-' || n, 0, '', '', '{}', \
         'DELIVERED', '{day}', '{day}', '{day}'",
    ] {
        let numbers =
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)";
        session
            .execute(
                &format!("INSERT INTO {} FROM ({numbers} SELECT n FROM numbers)", into.replace("{day}", day)),
                vec![],
            )
            .await
            .unwrap();
    }
    session.execute("ANALYZE", vec![]).await.unwrap();
    drop(session);
    filled.close().await;
    // SQLite loads statistics with the schema, so the store is reopened.
    check_hot_statements(&store(&directory).await, "filled").await;
}

/// The statements of an erasure, with the page of the audit log that it reads.
async fn run_erasure(session: &mut Session, event: &EventId) {
    let texts = MaskedTexts {
        event_id: event.clone(),
        payload: String::new(),
        payload_hash: String::new(),
        dead_letters: vec![("a.queue".to_owned(), String::new())],
        deliveries: vec![(1, String::new())],
    };
    let erasure = Erasure { at: DateTime::UNIX_EPOCH, reason: String::new() };
    session.erase_events(&[texts], &erasure).await.unwrap();
    session.erase_audit_reasons(&[1, 2]).await.unwrap();
    session.audit_page(&AuditFilter::default(), Some(9), 500).await.unwrap();
}

async fn check_hot_statements(store: &SqlStore, new_event: &str) {
    let plans = Arc::new(Mutex::new(Vec::new()));
    let inner = store.engine.writer().await.unwrap();
    let explaining = Box::new(ExplainingConnection { inner, plans: plans.clone() });
    let session = &mut Session::new(explaining, store.engine.dialect(), store.shared.clone());
    let now = DateTime::UNIX_EPOCH;
    let tenant = TenantId::DEFAULT;
    let event = "a".parse::<EventId>().unwrap();
    let aggregates: Vec<AggregateRef> =
        [1_i64, 2, 3].map(|id| AggregateRef { tenant, kind: "Book".to_owned(), id: id.into() }).into();
    session.append(&[unnumbered(new_event)]).await.unwrap();
    session.receive(&[received(new_event)]).await.unwrap();
    for on_failed in [OnFailed::Continue, OnFailed::Hold] {
        session.outbox_due(&due(on_failed)).await.unwrap();
    }
    session
        .outbox_due(&DueQuery { partitions: PartitionSet::EMPTY, ..due(OnFailed::Continue) })
        .await
        .unwrap();
    session.outbox_due_ids(&DueQuery { from_id: 9, ..due(OnFailed::Continue) }, 99).await.unwrap();
    session.outbox_backlog(0..i64::MAX, now).await.unwrap();
    session.unreleased_failed_rows().await.unwrap();
    for of in [None, Some(tenant)] {
        session.outbox_counts(of, 100).await.unwrap();
        session.consume_counts(of, 100).await.unwrap();
    }
    handover_outbox::ports::MonitoringQueries::most_retries(session).await.unwrap();
    session.outbox_by_event(std::slice::from_ref(&event)).await.unwrap();
    session.outbox_about(&aggregates).await.unwrap();
    let of_aggregate = OutboxFilter { aggregate_id: Some(7.into()), ..OutboxFilter::default() };
    session.outbox_page(&of_aggregate, None, 100).await.unwrap();
    session.outbox_after(&of_aggregate, None, 100).await.unwrap();
    session.archived_by_event(std::slice::from_ref(&event)).await.unwrap();
    session.archived_about(&aggregates).await.unwrap();
    for filter in
        [OutboxFilter::default(), OutboxFilter { aggregate_type: Some("Book".to_owned()), ..of_aggregate }]
    {
        session.archived_page(&filter, None, 100).await.unwrap();
    }
    session.stored_events(&["sent-1", "sent-2"].map(|id| id.parse().unwrap())).await.unwrap();
    session.archive_files(Some(9), 500).await.unwrap();
    run_erasure(session, &event).await;
    session.mark_failed(&[to_retry(&event)], now).await.unwrap();
    session.bring_retries_forward(PartitionSet::ALL, now, now).await.unwrap();
    session.redrive(&[Redrive { event_id: event.clone(), due: now }], now).await.unwrap();
    session.release(&aggregates[0], &unordered(), now).await.unwrap();
    session.unapplied("c", &["BOOK_LENT"], 0, &aggregates).await.unwrap();
    let from: Vec<_> = aggregates.iter().cloned().zip([0, 64, 900]).collect();
    session.unapplied_from("c", &["BOOK_LENT"], 0, &from, 100).await.unwrap();
    session.consumption("c", &event).await.unwrap();
    session.stale_consumptions("c", &["A"], now, now, 100).await.unwrap();
    session.unconsumed_events("c", &["BOOK_LENT"], 0, now, now, 100).await.unwrap();
    session.consumed_of(std::slice::from_ref(&event)).await.unwrap();
    session.dead_letters_of(&["a".to_owned()]).await.unwrap();
    session.undecided_dead_letters(Some(tenant)).await.unwrap();
    run_webhooks(session, new_event).await;
    for (sql, plan) in plans.lock().unwrap().iter() {
        // Scans of an index that contains only the rows in question are allowed: pending ones, and failed ones. And that of
        // the few endpoints.
        let allowed = [
            "USING INDEX idx_outbox_pending",
            "SCAN o USING INDEX idx_outbox_failed",
            "SCAN ended",
            "SCAN earliest_",
            "SCAN CONSTANT ROW",
            "SCAN b",
            "SCAN newest",
            "SCAN due",
            "SCAN (subquery-",
            "VALUES CLAUSE",
        ];
        let is_allowed = |step: &str| allowed.iter().any(|text| step.contains(text));
        let scans = plan.lines().filter(|step| step.starts_with("SCAN ") && !is_allowed(step));
        assert_eq!(scans.collect::<Vec<_>>(), Vec::<&str>::new(), "{sql}\n{plan}");
        assert!(!plan.contains("AUTOMATIC"), "{sql}\n{plan}");
        assert!(
            !sql.contains("JOIN event_consume_log") || plan.contains("(consumer=? AND event_id=?)"),
            "{plan}"
        );
    }
}

/// Writes, claims, settles and cancels deliveries to an ordered endpoint, one of which is blocked.
async fn run_webhooks(session: &mut Session, new_event: &str) {
    let now = DateTime::UNIX_EPOCH;
    let tenant = TenantId::DEFAULT;
    let endpoint = endpoint();
    if session.webhook_endpoint(Some(tenant), endpoint.id).await.unwrap().is_none() {
        session.insert_webhook_endpoint(&endpoint).await.unwrap();
    }
    session.webhook_endpoints(&[tenant]).await.unwrap();
    let delivery = |event: &str| NewWebhookDelivery {
        endpoint: endpoint.id,
        tenant,
        event_id: event.parse().unwrap(),
        redelivery: 0,
        event_type: "book.lent".to_owned(),
        order_key: "Book".to_owned(),
        body: "{}".to_owned(),
        body_form: BodyForm::Thin,
        dead_because: None,
        at: now,
    };
    session
        .insert_webhook_deliveries(&[delivery(new_event), delivery(&format!("{new_event}-2"))])
        .await
        .unwrap();
    let capacity = WebhookCapacity::new(9, &BTreeMap::new());
    let claim =
        WebhookClaim { id: ClaimId("c".to_owned()), now, until: now, limit: 9, capacity, is_repeated: false };
    for after in [AfterAttempt::Retry(now), AfterAttempt::Dead] {
        let claimed = session.claim_webhook_deliveries(&claim).await.unwrap();
        assert_eq!(claimed.len(), 1);
        let result = SettledDelivery {
            delivery: claimed[0].delivery.id,
            endpoint: endpoint.key(),
            claim: claim.id.clone(),
            attempt: None,
            after,
            error: None,
            at: now,
        };
        assert_eq!(session.settle_webhook_deliveries(&[result]).await.unwrap().len(), 1);
    }
    for state in [None, Some(DeliveryState::Pending), Some(DeliveryState::Dead)] {
        let filter = DeliveryFilter { state, ..DeliveryFilter::default() };
        assert!(!session.webhook_deliveries_page(endpoint.key(), &filter, None, 9).await.unwrap().is_empty());
    }
    session.webhook_deliveries_of(&[new_event.parse().unwrap()]).await.unwrap();
    session.webhook_attempts(endpoint.key(), 1).await.unwrap();
    session.webhook_attempt_counts(endpoint.key(), now).await.unwrap();
    let later = now + chrono::TimeDelta::seconds(1);
    let dead = DeadDeliveries { endpoint: endpoint.key(), from: now, to: later, is_unmasked: Some(false) };
    assert_eq!(session.count_dead_webhook_deliveries(&dead, 9).await.unwrap(), 1);
    assert_eq!(session.resend_webhook_deliveries(&dead, now, 9).await.unwrap(), 1);
    let mut changed = session.webhook_endpoint(Some(tenant), endpoint.id).await.unwrap().unwrap();
    // Enabled again at the end, for the next call.
    for (status, cancelled) in [(EndpointStatus::Disabled, 2), (EndpointStatus::Enabled, 0)] {
        changed = WebhookEndpoint { status, version: changed.version + 1, ..changed };
        assert_eq!(session.replace_webhook_endpoint(&changed).await.unwrap(), Changed::One);
        let found = session.cancel_webhook_deliveries(Some(endpoint.key()), Some(later), later, 9).await;
        assert_eq!(found.unwrap(), cancelled);
    }
}

fn endpoint() -> WebhookEndpoint {
    WebhookEndpoint {
        id: EndpointId(Uuid::from_u128(1)),
        tenant: TenantId::DEFAULT,
        slot: Some(1),
        url: "https://receiver.example".to_owned(),
        description: None,
        event_types: Vec::new(),
        is_ordered: true,
        body_form: BodyForm::Thin,
        signs_asymmetrically: false,
        per_second: Some(9),
        max_in_flight: 9,
        headers: None,
        secrets: Vec::new(),
        status: EndpointStatus::Enabled,
        disabled_reason: None,
        version: 1,
        create_time: DateTime::UNIX_EPOCH,
        update_time: DateTime::UNIX_EPOCH,
        health: EndpointHealth::default(),
    }
}

#[cfg(all(feature = "mysql", feature = "postgres"))]
#[test]
fn event_without_number_is_appended_by_one_statement_and_on_mysql_by_three() {
    use crate::engine::{mysql::MysqlDialect, postgres::PostgresDialect, sqlite::SqliteDialect};
    use crate::store::append_statements;

    let event = [unnumbered("a")];
    assert_eq!(append_statements(&PostgresDialect, &event).len(), 1);
    assert_eq!(append_statements(&SqliteDialect, &event).len(), 1);
    assert_eq!(append_statements(&MysqlDialect, &event).len(), 3);
    // PostgreSQL accepts 65,535 parameters per statement.
    let of_book = |id: i64| {
        let event = unnumbered("a");
        NewEvent { aggregate: AggregateRef { id: id.into(), ..event.aggregate.clone() }, ..event }
    };
    let events: Vec<NewEvent> = (1..=20_000).map(of_book).collect();
    let statements = append_statements(&PostgresDialect, &events);
    assert!(statements.iter().all(|(_, values)| values.len() < 65_535), "{}", statements.len());
}

/// The event of a row that exists.
fn received(id: &str) -> ReceivedEvent {
    let event = unnumbered(id);
    ReceivedEvent {
        event_id: event.event_id,
        event_type: event.event_type,
        aggregate: event.aggregate,
        aggregate_seq: 1,
        payload: event.payload,
        metadata: event.metadata,
        occurred_at: event.occurred_at,
        received_at: event.occurred_at,
        max_retry_count: event.max_retry_count,
        routing_key: None,
    }
}

fn unnumbered(id: &str) -> NewEvent {
    NewEvent {
        event_id: id.parse().unwrap(),
        event_type: "BOOK_LENT".to_owned(),
        aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "Book".to_owned(), id: 1_i64.into() },
        aggregate_seq: None,
        payload: "{}".to_owned(),
        metadata: EventMetadata::default(),
        occurred_at: DateTime::UNIX_EPOCH,
        max_retry_count: 3,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    }
}

fn to_retry(event: &EventId) -> FailedPublish {
    FailedPublish {
        event_id: event.clone(),
        status: OutboxStatus::Retry,
        retry_count: 1,
        next_retry_time: None,
        error: String::new(),
    }
}
