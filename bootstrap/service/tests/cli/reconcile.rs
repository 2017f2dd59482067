//! `reconcile`: what it tells, mends, and ends with.

use handover_events::TenantId;
use marketplace_domain::{Order, OrderId};
use serde_json::{Value, json};

use crate::inspect::market;
use crate::program::World;

/// An order that nobody announced: 900, like order 1 in all else.
async fn unannounced(world: &World) {
    world
        .change(async |unit| {
            let id = OrderId::try_from(1).unwrap();
            let order = unit.order_by_id(TenantId::DEFAULT, id).await.unwrap().unwrap();
            unit.insert_order(&Order { id: 900.try_into().unwrap(), ..order }).await.unwrap();
        })
        .await;
}

fn findings(told: &Value) -> &Vec<Value> {
    told["findings"].as_array().unwrap()
}

#[test]
fn a_sound_market_is_told_in_counts_and_ends_with_0() {
    let world = World::new();
    let _server = market(&world);
    let ran = world.run("reconcile --output json");
    let told = ran.json();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!((&told["orders"], &told["events"], &told["sound"]), (&json!(2), &json!(4), &json!(true)));
    assert_eq!(findings(&told), &[Value::Null; 0]);
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
async fn what_is_missing_ends_with_1_until_it_is_mended() {
    let world = World::new();
    drop(market(&world));
    unannounced(&world).await;
    let found = world.run("reconcile --output json");
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(found.stderr.contains("handover reconcile --repair mends what can be mended"), "{found:?}");
    let told = found.json();
    let kinds: Vec<(&Value, &Value, &Value)> =
        findings(&told).iter().map(|it| (&it["kind"], &it["orderId"], &it["mended"])).collect();
    assert_eq!(kinds, [(&json!("missingEvent"), &json!(900), &Value::Null); 2]);
    assert_eq!(told["counts"]["missingEvent"], 2);
    let table = world.run("reconcile");
    assert_eq!(table.code, Some(1));
    assert!(table.stdout.contains("\nmissingEvent  1         900      ORDER_CREATED"), "{table:?}");

    let mended = world.run("reconcile --repair --output json");
    assert_eq!(mended.code, Some(0), "{mended:?}");
    assert!(findings(&mended.json()).iter().all(|it| it["mended"] == "announced"), "{mended:?}");
    let after = world.run("reconcile --output json");
    assert_eq!((after.code, findings(&after.json()).len()), (Some(0), 0), "{after:?}");
}

#[test]
fn a_time_that_ends_before_it_begins_is_a_usage_error() {
    let world = World::new();
    world.run("migrate").done();
    world
        .run("reconcile --from 2026-01-31T09:00:00Z --to 2026-01-31T08:00:00Z")
        .refused(2, &["the time ends before it begins", "see handover reconcile --help"]);
    assert_eq!(world.run("reconcile --since soon").code, Some(2));
}
