//! The statements, expanded once for each engine: the drivers of sqlx have no common type that binds values.

use chrono::{DateTime, Utc};

/// Maximum number of rows in one statement. SQLite binds at most 32,766 values, and the widest row has 18.
pub(crate) const MAX_ROWS: usize = 1_000;

/// A time in the format of the tables on SQLite.
pub(crate) fn sqlite_time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

macro_rules! engine {
    (
        $module:ident, $database:ty, begin: $begin:literal, pending: $pending:literal, lock: $lock:literal,
        time: $time:ty, write: $write:expr, read: $read:expr $(,)?
    ) => {
        pub(crate) mod $module {
            use chrono::{DateTime, Utc};
            use sqlx::{AssertSqlSafe, QueryBuilder, Row as _};
            use tokio::time::Instant;

            use super::MAX_ROWS;
            use crate::baseline::connection::Queued;
            use crate::baseline::error::BaselineError;
            use crate::baseline::event::{Appended, Envelope, Event, Order, Placed, WebhookDelivery, trace_of};

            type Connection = <$database as sqlx::Database>::Connection;
            type Builder = QueryBuilder<$database>;

            fn write(at: DateTime<Utc>) -> $time {
                ($write)(at)
            }

            fn read(time: $time) -> Result<DateTime<Utc>, BaselineError> {
                ($read)(time)
            }

            pub(crate) async fn raw(connection: &mut Connection, sql: &str) -> Result<u64, BaselineError> {
                let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await?;
                Ok(done.rows_affected())
            }

            pub(crate) async fn begin(connection: &mut Connection) -> Result<(), BaselineError> {
                raw(connection, $begin).await.map(drop)
            }

            pub(crate) async fn number(connection: &mut Connection, sql: &str) -> Result<i64, BaselineError> {
                Ok(sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(connection).await?)
            }

            pub(crate) async fn texts(
                connection: &mut Connection,
                sql: &str,
            ) -> Result<Vec<String>, BaselineError> {
                let rows = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_all(connection).await?;
                rows.iter().map(|row| Ok(row.try_get_unchecked(0)?)).collect()
            }

            pub(crate) async fn place(
                connection: &mut Connection,
                order: &Order,
                key: Option<&str>,
            ) -> Result<Placed, BaselineError> {
                let mut at = Instant::now();
                let mut lap = || std::mem::replace(&mut at, Instant::now()).elapsed();
                begin(connection).await?;
                let beginning = lap();
                let mut select = Builder::new(
                    "SELECT id, tenant_id, seller_id, title, price_minor, status, version, create_time, \
                     update_time FROM products WHERE id = ",
                );
                select.push_bind(order.product_id).push(" AND tenant_id = ").push_bind(order.tenant_id);
                let product = select.build().fetch_one(&mut *connection).await?;
                let reading = lap();
                let seller: i64 = product.try_get(2)?;
                let title: String = product.try_get_unchecked(3)?;
                let price: i64 = product.try_get(4)?;
                let version: i64 = product.try_get(6)?;
                let created: $time = product.try_get_unchecked(7)?;
                let now = || write(order.at);

                let mut update = Builder::new("UPDATE products SET seller_id = ");
                update.push_bind(seller).push(", title = ").push_bind(title);
                update.push(", price_minor = ").push_bind(price).push(", status = ").push_bind("sold");
                update.push(", version = ").push_bind(version + 1).push(", create_time = ").push_bind(created);
                update.push(", update_time = ").push_bind(now()).push(" WHERE id = ").push_bind(order.product_id);
                update.push(" AND tenant_id = ").push_bind(order.tenant_id);
                update.push(" AND version = ").push_bind(version);
                if update.build().execute(&mut *connection).await?.rows_affected() != 1 {
                    return Err(BaselineError::Unexpected(format!("product {} is not on sale in this version", order.product_id)));
                }

                let updating = lap();
                let mut insert = Builder::new(
                    "INSERT INTO orders (id, order_no, tenant_id, product_id, buyer_id, seller_id, status, \
                     cancel_reason, total_minor, payable_minor, carrier, tracking_no, version, create_time, \
                     pay_time, update_time) ",
                );
                insert.push_values([()], |mut row, ()| {
                    row.push_bind(order.id).push_bind(order.number()).push_bind(order.tenant_id);
                    row.push_bind(order.product_id).push_bind(order.buyer_id).push_bind(seller);
                    row.push_bind("pending").push_bind(None::<String>).push_bind(price).push_bind(price);
                    row.push_bind(None::<String>).push_bind(None::<String>).push_bind(1i64);
                    row.push_bind(now()).push_bind(None::<$time>).push_bind(now());
                });
                insert.build().execute(&mut *connection).await?;
                let inserting = lap();

                let metadata =
                    format!("{{\"traceId\":\"{}\",\"userId\":{}}}", order.trace_id(), order.buyer_id);
                let events = [
                    ("ORDER_CREATED", order.event_id(0), order.created(seller, price)),
                    ("ORDER_TIMEOUT", order.event_id(1), order.timeout(seller, price)),
                ];
                let mut append = Builder::new(
                    "INSERT INTO outbox_events (event_id, event_type, tenant_id, aggregate_type, aggregate_id, \
                     aggregate_seq, payload, metadata, max_retry_count, status, create_time, update_time) ",
                );
                append.push_values(events, |mut row, (kind, id, payload)| {
                    row.push_bind(id).push_bind(kind).push_bind(order.tenant_id).push_bind("Order");
                    row.push_bind(order.id).push_bind(1i64).push_bind(payload).push_bind(metadata.clone());
                    row.push_bind(3i64).push_bind("NEW").push_bind(now()).push_bind(now());
                });
                append.build().execute(&mut *connection).await?;
                let appending = lap();
                let mut steps = vec![
                    ("begin", beginning),
                    ("read products", reading),
                    ("change products", updating),
                    ("insert orders", inserting),
                    ("insert outbox_events", appending),
                ];
                let placed = Placed { seller, price_minor: price, steps: Vec::new() };
                if let Some(key) = key {
                    let mut claim = Builder::new(
                        "INSERT INTO idempotency_keys (tenant_id, user_id, route, idempotency_key, body_hash, token, \
                         status, answer_status, answer, trace_id, create_time, expire_time) ",
                    );
                    claim.push_values([()], |mut row, ()| {
                        row.push_bind(order.tenant_id).push_bind(order.buyer_id).push_bind("POST /api/v1/orders");
                        row.push_bind(key.to_owned()).push_bind(order.body_hash()).push_bind(order.trace_id());
                        row.push_bind("SUCCESS").push_bind(201i64).push_bind(order.response(&placed));
                        row.push_bind(order.trace_id()).push_bind(now());
                        row.push_bind(write(order.at + chrono::TimeDelta::days(1)));
                    });
                    claim.build().execute(&mut *connection).await?;
                    steps.push(("insert idempotency_keys", lap()));
                }
                raw(connection, "COMMIT").await?;
                steps.push(("commit", lap()));
                Ok(Placed { steps, ..placed })
            }

            pub(crate) async fn append(
                connection: &mut Connection,
                event: &Appended,
            ) -> Result<Vec<(&'static str, std::time::Duration)>, BaselineError> {
                let mut at = Instant::now();
                let mut lap = || std::mem::replace(&mut at, Instant::now()).elapsed();
                begin(connection).await?;
                let beginning = lap();
                let mut update = Builder::new("UPDATE products SET version = version + 1 WHERE id = ");
                update.push_bind(event.product_id);
                update.build().execute(&mut *connection).await?;
                let updating = lap();
                let mut append = Builder::new(
                    "INSERT INTO outbox_events (event_id, event_type, tenant_id, aggregate_type, aggregate_id, \
                     aggregate_seq, payload, max_retry_count, routing_key, status, create_time, update_time) ",
                );
                append.push_values([()], |mut row, ()| {
                    row.push_bind(event.event_id.clone()).push_bind("product.changed").push_bind(1i64);
                    row.push_bind("product").push_bind(event.product_id).push_bind(event.seq);
                    row.push_bind(event.payload.clone()).push_bind(3i64).push_bind("product.changed");
                    row.push_bind("NEW").push_bind(write(event.at)).push_bind(write(event.at));
                });
                append.build().execute(&mut *connection).await?;
                let appending = lap();
                raw(connection, "COMMIT").await?;
                Ok(vec![
                    ("begin", beginning),
                    ("change products", updating),
                    ("insert outbox_events", appending),
                    ("commit", lap()),
                ])
            }

            pub(crate) async fn claim(connection: &mut Connection, limit: u32) -> Result<Vec<Event>, BaselineError> {
                let mut select = Builder::new(
                    "SELECT id, event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, tenant_id, \
                     payload, metadata, create_time FROM outbox_events WHERE ",
                );
                select.push($pending).push(" ORDER BY id LIMIT ").push_bind(i64::from(limit)).push($lock);
                let rows = select.build().fetch_all(connection).await?;
                rows.iter()
                    .map(|row| {
                        let event_id: String = row.try_get_unchecked(1)?;
                        let metadata: Option<String> = row.try_get_unchecked(8)?;
                        Ok(Event {
                            id: row.try_get(0)?,
                            trace_id: trace_of(metadata.as_deref(), &event_id)?,
                            event_id,
                            event_type: row.try_get_unchecked(2)?,
                            aggregate_type: row.try_get_unchecked(3)?,
                            aggregate_id: row.try_get(4)?,
                            aggregate_seq: row.try_get(5)?,
                            tenant_id: row.try_get(6)?,
                            payload: row.try_get_unchecked(7)?,
                            create_time: read(row.try_get_unchecked(9)?)?,
                        })
                    })
                    .collect()
            }

            pub(crate) async fn mark_sent(
                connection: &mut Connection,
                events: &[Event],
                at: DateTime<Utc>,
            ) -> Result<(), BaselineError> {
                for events in events.chunks(MAX_ROWS) {
                    let mut update = Builder::new("UPDATE outbox_events SET status = 'SENT', sent_time = ");
                    update.push_bind(write(at)).push(", update_time = ").push_bind(write(at));
                    update.push(" WHERE id IN (");
                    let mut ids = update.separated(", ");
                    for event in events {
                        ids.push_bind(event.id);
                    }
                    update.push(")");
                    update.build().execute(&mut *connection).await?;
                }
                Ok(())
            }

            pub(crate) async fn enqueue(
                connection: &mut Connection,
                rows: &[(&str, Option<DateTime<Utc>>, &Event)],
            ) -> Result<(), BaselineError> {
                for rows in rows.chunks(MAX_ROWS) {
                    let mut insert = Builder::new(
                        "INSERT INTO outbox_broker_messages (queue, message_id, kind, correlation_id, headers, body, \
                         expires_at, died_in) ",
                    );
                    insert.push_values(rows, |mut row, (queue, expires, event)| {
                        row.push_bind((*queue).to_owned()).push_bind(event.event_id.clone());
                        row.push_bind(event.event_type.clone()).push_bind(event.trace_id.clone());
                        row.push_bind(format!(
                            "{{\"aggregateId\":\"{}\",\"aggregateType\":\"{}\",\"tenantId\":\"{}\"}}",
                            event.aggregate_id, event.aggregate_type, event.tenant_id
                        ));
                        row.push_bind(event.body()).push_bind(expires.map(write)).push_bind(None::<String>);
                    });
                    insert.build().execute(&mut *connection).await?;
                }
                Ok(())
            }

            pub(crate) async fn dequeue(
                connection: &mut Connection,
                queue: &str,
                limit: u32,
            ) -> Result<Vec<Queued>, BaselineError> {
                let mut select =
                    Builder::new("SELECT id, body FROM outbox_broker_messages WHERE session_id IS NULL AND queue = ");
                select.push_bind(queue.to_owned()).push(" ORDER BY id LIMIT ").push_bind(i64::from(limit));
                let rows = select.push($lock).build().fetch_all(connection).await?;
                rows.iter()
                    .map(|row| Ok(Queued { id: row.try_get(0)?, body: row.try_get_unchecked(1)? }))
                    .collect()
            }

            pub(crate) async fn pending_deliveries(
                connection: &mut Connection,
            ) -> Result<Vec<WebhookDelivery>, BaselineError> {
                let mut select = Builder::new(
                    "SELECT id, endpoint_id, event_id, body FROM webhook_deliveries WHERE state = 'PENDING' ORDER BY id",
                );
                let rows = select.build().fetch_all(connection).await?;
                rows.iter()
                    .map(|row| {
                        Ok(WebhookDelivery {
                            id: row.try_get(0)?,
                            endpoint: row.try_get_unchecked(1)?,
                            event_id: row.try_get_unchecked(2)?,
                            body: row.try_get_unchecked(3)?,
                        })
                    })
                    .collect()
            }

            pub(crate) async fn record_delivery(
                connection: &mut Connection,
                delivery: &WebhookDelivery,
                at: DateTime<Utc>,
            ) -> Result<(), BaselineError> {
                begin(connection).await?;
                let mut update =
                    Builder::new("UPDATE webhook_deliveries SET state = 'DELIVERED', last_status = 204, settle_time = ");
                update.push_bind(write(at)).push(" WHERE id = ").push_bind(delivery.id);
                update.push(" AND state = 'PENDING'");
                update.build().execute(&mut *connection).await?;
                let mut insert = Builder::new(
                    "INSERT INTO webhook_attempts (delivery_id, endpoint_id, attempt_time, duration_ms, outcome, \
                     status, response) ",
                );
                insert.push_values([()], |mut row, ()| {
                    row.push_bind(delivery.id).push_bind(delivery.endpoint.clone()).push_bind(write(at));
                    row.push_bind(1i64).push_bind("DELIVERED").push_bind(204i64).push_bind("");
                });
                insert.build().execute(&mut *connection).await?;
                raw(connection, "COMMIT").await.map(drop)
            }

            pub(crate) async fn remove(connection: &mut Connection, ids: &[i64]) -> Result<(), BaselineError> {
                let mut delete = Builder::new("DELETE FROM outbox_broker_messages WHERE id IN (");
                let mut list = delete.separated(", ");
                for id in ids {
                    list.push_bind(*id);
                }
                delete.push(")");
                delete.build().execute(connection).await?;
                Ok(())
            }

            pub(crate) async fn apply(
                connection: &mut Connection,
                consumer: &str,
                envelopes: &[Envelope],
                at: DateTime<Utc>,
            ) -> Result<(), BaselineError> {
                for envelopes in envelopes.chunks(MAX_ROWS) {
                    let mut log = Builder::new(
                        "INSERT INTO event_consume_log (event_id, event_type, consumer, consume_time, status, \
                         attempts, cost_ms, error_message, idempotency_key, consume_result, payload_hash, \
                         trace_id, lease_until, next_retry_time, aggregate_seq, tenant_id, aggregate_type, \
                         aggregate_id) ",
                    );
                    log.push_values(envelopes, |mut row, event| {
                        row.push_bind(event.event_id.clone()).push_bind(event.event_type.clone());
                        row.push_bind(consumer.to_owned()).push_bind(write(at)).push_bind("SUCCESS");
                        row.push_bind(1i64).push_bind(0i64).push_bind(None::<String>);
                        row.push_bind(None::<String>).push_bind("done");
                        row.push_bind(String::new()).push_bind(event.trace_id.clone());
                        row.push_bind(None::<$time>).push_bind(None::<$time>).push_bind(1i64);
                        row.push_bind(1i64).push_bind(event.aggregate_type.clone());
                        row.push_bind(event.aggregate_id);
                    });
                    log.build().execute(&mut *connection).await?;
                    let mut effect = Builder::new(
                        "INSERT INTO shipments (tenant_id, order_id, seller_id, buyer_id, aggregate_seq, \
                         event_id, create_time) ",
                    );
                    effect.push_values(envelopes, |mut row, event| {
                        row.push_bind(1i64).push_bind(event.payload.order_id);
                        row.push_bind(event.payload.seller_id).push_bind(event.payload.buyer_id);
                        row.push_bind(1i64).push_bind(event.event_id.clone()).push_bind(write(at));
                    });
                    effect.build().execute(&mut *connection).await?;
                }
                Ok(())
            }
        }
    };
}

engine!(
    sqlite, sqlx::Sqlite, begin: "BEGIN IMMEDIATE", pending: "status IN ('NEW', 'RETRY')", lock: "",
    time: String, write: super::sqlite_time,
    read: |text: String| DateTime::parse_from_rfc3339(&text)
        .map(|at| at.to_utc())
        .map_err(|error| BaselineError::Unexpected(format!("{text:?} cannot be read as a time: {error}"))),
);
engine!(
    postgres, sqlx::Postgres, begin: "BEGIN", pending: "status IN ('NEW', 'RETRY')",
    lock: " FOR UPDATE SKIP LOCKED", time: DateTime<Utc>, write: |at| at, read: Ok,
);
engine!(
    mysql, sqlx::MySql, begin: "START TRANSACTION", pending: "pending = 1", lock: " FOR UPDATE SKIP LOCKED",
    time: chrono::NaiveDateTime, write: |at: DateTime<Utc>| at.naive_utc(),
    read: |at: chrono::NaiveDateTime| Ok(at.and_utc()),
);
