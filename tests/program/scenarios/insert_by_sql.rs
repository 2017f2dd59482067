//! The page "Inserting events by SQL": its statements work as documented on each engine.

use handover_tests::deployment::Pair;
use handover_tests::servers::database::ServerKind;

use super::shop::Shop;

handover_tests::on_pairs!([documented_insert_statement_creates_event_that_is_applied, documented_invalid_statements_are_rejected_and_invalid_events_block_nothing]:
    sqlite_and_database SqliteAlone, mariadb_and_database MariaDbAlone, postgres_and_database PostgresAlone);

const PAGE: &str = include_str!("../../../bootstrap/docs/events-by-sql.md");

/// The statements of the code block after this line of the page.
#[track_caller]
fn block(after: &str) -> Vec<&'static str> {
    let (_, rest) = PAGE.split_once(after).unwrap();
    let (_, rest) = rest.split_once("```sql").unwrap().1.split_once('\n').unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    block.split_inclusive(";\n").map(str::trim).filter(|statement| !statement.is_empty()).collect()
}

/// The INSERT statement of the page, changed for this order.
async fn insert(shop: &Shop, order: i64) -> String {
    let heading = match shop.deployment().pair().database_server() {
        None => "\nSQLite:\n",
        Some(ServerKind::MariaDb) => "\nMySQL and MariaDB:\n",
        Some(ServerKind::Postgres) => "\nPostgreSQL:\n",
    };
    let columns = format!("SELECT order_no, product_id FROM orders WHERE id = {order}");
    let [order_no, product] = shop.snapshot.table(&columns).await.unwrap().remove(0).try_into().unwrap();
    block(heading)[0]
        .replace("900001", &order.to_string())
        .replace("202602041030000001", &order_no.unwrap())
        .replace("\"productId\":1", &format!("\"productId\":{}", product.unwrap()))
}

async fn documented_insert_statement_creates_event_that_is_applied(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let order = shop.paid_order().await;
    shop.settled().await;
    let statement = insert(&shop, order).await;
    assert_eq!(shop.snapshot.change(&statement).await, 1);
    shop.expect_count(
        1,
        "SELECT count(*) FROM outbox_events WHERE event_id = 'by-hand-1' AND status = 'SENT'",
    )
    .await;
    shop.settled().await;
    let [row, log] = block("## Check").try_into().unwrap();
    let row = shop.snapshot.table(row).await.unwrap().remove(0);
    assert_eq!(row, [Some("SENT".into()), Some("0".into()), None]);
    let log = shop.snapshot.table(log).await.unwrap();
    assert!(log.len() > 1 && log.iter().all(|row| row[1].as_deref() == Some("SUCCESS")), "{log:?}");
    let shipments = format!("SELECT count(*) FROM shipments WHERE order_id = {order}");
    assert_eq!(shop.snapshot.number(&shipments).await, 1, "the order has no second shipment");
}

async fn documented_invalid_statements_are_rejected_and_invalid_events_block_nothing(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let order = shop.paid_order().await;
    shop.settled().await;
    let statement = insert(&shop, order).await;
    for (good, bad) in [
        ("'by-hand-1'", "'by hand'"),
        ("(event_id,", "(metadata, event_id,"),
        ("(event_id,", "(retry_count, event_id,"),
        ("(event_id,", "(status, event_id,"),
        ("(event_id,", "(next_retry_time, event_id,"),
    ] {
        let value = match bad {
            "(metadata, event_id," => "VALUES ('[]', ",
            "(retry_count, event_id," => "VALUES (-1, ",
            "(status, event_id," => "VALUES ('new', ",
            "(next_retry_time, event_id," => "VALUES ('2026-02-31 00:00:00', ",
            _ => "VALUES (",
        };
        let refused = statement.replacen(good, bad, 1).replacen("VALUES (", value, 1);
        assert!(shop.snapshot.try_change(&refused).await.is_err(), "{refused}");
    }
    // These events can never be sent. They precede the order's next event and must not block it.
    for (id, good, bad, why) in [
        ("no-object", "'{", "'[{", "the payload is not JSON"),
        ("unknown-type", "'ORDER_PAID'", "'ORDER_EATEN'", "事件类型不支持: ORDER_EATEN"),
        ("other-type", "'Order'", "'Payment'", "aggregate_type is Payment, but ORDER_PAID requires Order"),
        ("other-id", "\"orderId\":", "\"orderId\":1", "aggregate_id is "),
    ] {
        let statement = statement.replacen("by-hand-1", id, 1).replacen(good, bad, 1);
        assert_eq!(shop.snapshot.change(&statement).await, 1, "{statement}");
        let failed = format!(
            "SELECT count(*) FROM outbox_events WHERE event_id = '{id}' AND status = 'FAILED'
            AND retry_count = 1 AND last_error LIKE '消息发送失败: {why}%'"
        );
        shop.expect_count(1, &failed).await;
    }
    // This event is due in eight hours, as if a session in another time zone had inserted its local time. The next
    // event of the order does not wait for this event.
    let later = match shop.deployment().pair().database_server() {
        None => "strftime('%Y-%m-%d %H:%M:%f', 'now', '+8 hours')",
        Some(ServerKind::MariaDb) => "TIMESTAMPADD(HOUR, 8, UTC_TIMESTAMP(6))",
        Some(ServerKind::Postgres) => "now() + INTERVAL '8 hours'",
    };
    let delayed = statement.replacen("by-hand-1", "delayed", 1);
    let delayed = delayed.replacen("(event_id,", "(next_retry_time, event_id,", 1);
    let delayed = delayed.replacen("VALUES (", &format!("VALUES ({later}, "), 1);
    assert_eq!(shop.snapshot.change(&delayed).await, 1);
    let waiting = shop.inspect("blocked").await;
    let item = waiting.items().iter().find(|item| item["aggregateId"] == order).cloned().unwrap();
    assert_eq!((&item["eventId"], &item["waitsFor"]), (&"delayed".into(), &"TIME".into()), "{item}");
    assert!(item["until"].is_string(), "{item}");
    shop.complete(order).await;
    let sent = format!(
        "SELECT count(*) FROM outbox_events WHERE aggregate_id = {order} AND event_type = 'ORDER_STATUS_CHANGED'
         AND status = 'SENT'"
    );
    shop.expect_count(2, &sent).await;
    let unsent = "SELECT count(*) FROM outbox_events WHERE event_id = 'delayed' AND status = 'NEW'";
    assert_eq!(shop.snapshot.number(unsent).await, 1);
}
