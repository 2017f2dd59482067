//! `reconcile`: findings, repairs and exit codes.

use handover_events::TenantId;
use handover_outbox::ports::Changed;
use marketplace_domain::{Order, OrderId, Product, ProductStatus};
use serde_json::{Value, json};

use crate::inspect::market;
use crate::program::World;

/// Inserts order 900, a copy of order 1 with its own product, without its events.
async fn insert_order_without_events(world: &World) {
    world
        .change(async |unit| {
            let id = OrderId::try_from(1).unwrap();
            let order = unit.order_by_id(TenantId::DEFAULT, id).await.unwrap().unwrap();
            let product = unit.product_by_id(TenantId::DEFAULT, order.product).await.unwrap().unwrap();
            let product = Product { id: 900.try_into().unwrap(), ..product };
            unit.insert_product(&product).await.unwrap();
            let order = Order { id: 900.try_into().unwrap(), product: product.id, ..order };
            unit.insert_order(&order).await.unwrap();
        })
        .await;
}

fn findings(report: &Value) -> &Vec<Value> {
    report["findings"].as_array().unwrap()
}

#[test]
fn reconcile_without_findings_prints_counts_and_exits_with_0() {
    let world = World::new();
    let _server = market(&world);
    let ran = world.run("reconcile --output json");
    let report = ran.json();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        (&report["orders"], &report["events"], &report["sound"]),
        (&json!(2), &json!(4), &json!(true))
    );
    assert_eq!(findings(&report), &[Value::Null; 0]);
    let table = world.run("reconcile --since 90m --tenant 1");
    let text = table.done();
    for line in ["orders 2", "confirmed 4", "missingEvent 0", "sound true"] {
        let is_line = |each: &str| each.split_whitespace().eq(line.split(' '));
        assert!(text.lines().any(is_line), "no {line:?}: {text}");
    }
    let other = world.run("reconcile --tenant 2 --output json").json();
    assert_eq!(other["orders"], 0);
    let before = world.run("reconcile --from 2020-01-01T00:00:00Z --to 2020-01-02T00:00:00Z --output json");
    assert_eq!((before.code, &before.json()["orders"]), (Some(0), &json!(0)), "{before:?}");
}

#[tokio::test]
async fn reconcile_exits_with_1_until_findings_are_repaired() {
    let world = World::new();
    drop(market(&world));
    insert_order_without_events(&world).await;
    let found = world.run("reconcile --output json");
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(found.stderr.contains("`handover reconcile --repair` repairs what can be repaired"), "{found:?}");
    let report = found.json();
    let kinds: Vec<(&Value, &Value, &Value)> =
        findings(&report).iter().map(|it| (&it["kind"], &it["orderId"], &it["repaired"])).collect();
    assert_eq!(kinds, [(&json!("missingEvent"), &json!(900), &Value::Null); 2]);
    assert_eq!(report["counts"]["missingEvent"], 2);
    let table = world.run("reconcile");
    assert_eq!(table.code, Some(1));
    assert!(table.stdout.contains("\nmissingEvent  1         900      ORDER_CREATED"), "{table:?}");

    let repaired = world.run("reconcile --repair --output json");
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    assert!(findings(&repaired.json()).iter().all(|it| it["repaired"] == "announced"), "{repaired:?}");
    let after = world.run("reconcile --output json");
    assert_eq!((after.code, findings(&after.json()).len()), (Some(0), 0), "{after:?}");
}

#[tokio::test]
async fn product_on_sale_of_an_order_is_listed_and_marked_sold() {
    let world = World::new();
    drop(market(&world));
    world
        .change(async |unit| {
            let id = OrderId::try_from(1).unwrap();
            let order = unit.order_by_id(TenantId::DEFAULT, id).await.unwrap().unwrap();
            let mut product = unit.product_by_id(TenantId::DEFAULT, order.product).await.unwrap().unwrap();
            product.status = ProductStatus::OnSale;
            product.version += 1;
            assert_eq!(unit.advance_product(&product).await.unwrap(), Changed::One);
        })
        .await;
    let table = world.run("reconcile");
    assert_eq!(table.code, Some(1), "{table:?}");
    assert!(table.stdout.contains("\nproductNotSold  1         1 "), "{table:?}");
    for (expected, code) in [(json!(["productSold"]), 0), (json!([]), 0)] {
        let repaired = world.run("reconcile --repair --output json");
        let report = repaired.json();
        let repairs: Vec<&Value> = findings(&report).iter().map(|it| &it["repaired"]).collect();
        assert_eq!((repaired.code, json!(repairs)), (Some(code), expected), "{report}");
    }
}

#[test]
fn time_range_that_ends_before_it_begins_is_a_usage_error() {
    let world = World::new();
    world.run("migrate").done();
    world
        .run("reconcile --from 2026-01-31T09:00:00Z --to 2026-01-31T08:00:00Z")
        .refused(2, &["the time range ends before it begins", "see handover reconcile --help"]);
    assert_eq!(world.run("reconcile --since soon").code, Some(2));
}

#[tokio::test]
async fn findings_are_listed_and_acknowledged() {
    let world = World::new();
    drop(market(&world));
    insert_order_without_events(&world).await;
    assert_eq!(world.run("reconcile findings").done().lines().count(), 1, "only the header");
    assert_eq!(world.run("reconcile").code, Some(1));
    let open = world.run("reconcile findings --state open --tenant 1 --output json").json();
    let items = open["items"].as_array().unwrap();
    let kinds: Vec<(&Value, &Value)> = items.iter().map(|it| (&it["kind"], &it["orderId"])).collect();
    assert_eq!(kinds, [(&json!("missingEvent"), &json!(900)); 2]);
    let id = &items[0]["findingId"];
    let acknowledged = world.run(&format!("reconcile findings acknowledge {id} --reason test"));
    let text = acknowledged.done();
    for line in ["state ACKNOWLEDGED", "reason test"] {
        let is_line = |each: &str| each.split_whitespace().eq(line.split(' '));
        assert!(text.lines().any(is_line), "no {line:?}: {text}");
    }
    let open = world.run("reconcile findings --state open --output json").json();
    assert_eq!(open["items"].as_array().unwrap().len(), 1);
    assert_eq!(world.run("reconcile --repair").code, Some(0));
    let repaired = world.run("reconcile findings --state repaired --output json").json();
    assert_eq!(repaired["items"].as_array().unwrap().len(), 2);
    assert_eq!(world.run("reconcile findings --tenant 2 --output json").json()["items"], json!([]));
    world
        .run("reconcile findings acknowledge 4711 --reason r")
        .refused(1, &["not found in handover.db: finding 4711", "see `handover reconcile findings`"]);
    assert_eq!(world.run("reconcile findings acknowledge 1").code, Some(2));
    assert_eq!(world.run("reconcile findings --state sound").code, Some(2));
}
