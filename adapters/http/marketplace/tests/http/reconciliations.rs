//! `/api/v1/ops/reconciliation`.

use handover_events::TenantId;
use handover_outbox::ports::Changed;
use handover_outbox::with_tx;
use marketplace::Role;
use marketplace_domain::{CancelReason, OrderId, OrderStatus, ProductAction};
use serde_json::{Value, json};

use crate::world::{BUYER, OTHER_USER, World};

const PATH: &str = "/api/v1/ops/reconciliation";
const REPAIR: &str = "/api/v1/ops/reconciliation/repair";
const FINDINGS: &str = "/api/v1/ops/reconciliation/findings";

impl World {
    async fn reconciled(&self, query: &str) -> Value {
        self.get_as_operator(&format!("{PATH}{query}")).send().await.expect(200, "00000").data
    }

    /// Cancels an order and releases its product without appending an event to the outbox.
    async fn cancelled_without_event(&self) -> i64 {
        let order = self.order().await;
        let changed = with_tx(&self.app.tx, (), move |unit, (), _| {
            Box::pin(async move {
                let id = OrderId::try_from(order).unwrap();
                let mut order = unit.order_by_id(TenantId::DEFAULT, id).await?.unwrap();
                order.version += 1;
                order.status = OrderStatus::Cancelled;
                order.cancel_reason = Some(CancelReason::Buyer);
                let product = unit.product_by_id(TenantId::DEFAULT, order.product).await?.unwrap();
                let released = product.apply(ProductAction::Release, order.update_time).unwrap();
                assert_eq!(unit.advance_product(&released).await?, Changed::One);
                unit.advance_order(&order).await
            })
        })
        .await;
        assert_eq!(changed.unwrap(), Changed::One);
        order
    }
}

#[tokio::test(start_paused = true)]
async fn reconciliation_of_consistent_rows_is_sound_and_has_no_findings() {
    let world = World::new().await;
    world.completed_order().await;
    world.run_until_idle().await;
    let result = world.reconciled("").await;
    let number = |name: &str| result[name].as_u64().unwrap();
    assert_eq!(
        (number("orders"), number("pending"), number("parked")),
        (1, 1, 0),
        "the timeout event is pending"
    );
    assert!(number("events") >= 5 && number("confirmed") == number("events"), "{result}");
    assert!(number("consumed") > 0 && number("effects") > 0, "{result}");
    let expected = json!({
        "from": "2026-01-30T08:00:20.000000Z", "to": "2026-01-31T08:00:20.000000Z", "orders": result["orders"],
        "events": result["events"], "confirmed": result["confirmed"], "consumed": result["consumed"],
        "effects": result["effects"], "pending": 1, "parked": 0, "sound": true,
        "counts": {
            "missingEvent": 0, "notConfirmed": 0, "notConsumed": 0, "missingEffect": 0, "unknownEvent": 0, "unreadableRow": 0,
            "doubledEffect": 0, "effectWithoutFact": 0,
            "missingHold": 0, "notBooked": 0, "unbalanced": 0, "drifted": 0,
            "productNotSold": 0, "soldTwice": 0, "soldWithoutOrder": 0, "paidWithoutPayment": 0, "paymentFailed": 0,
            "paymentNotApplied": 0, "refundNotApplied": 0, "notRefunded": 0, "gatewayReport": 0, "notReported": 0,
            "missingDelivery": 0,
            "invoiceDiffers": 0
        },
        "findings": [], "more": false
    });
    assert_eq!(result, expected);
    let before = world.reconciled("?to=2026-01-31T08:00:00Z").await;
    assert_eq!((&before["from"], &before["orders"]), (&json!("2026-01-30T08:00:00.000000Z"), &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn missing_event_is_reported_by_get_and_repaired_by_post() {
    let world = World::new().await;
    let order = world.cancelled_without_event().await;
    world.run_until_idle().await;
    for query in ["", "?repair=false"] {
        let result = world.reconciled(query).await;
        assert_eq!((&result["sound"], &result["counts"]["missingEvent"]), (&json!(false), &json!(1)));
        let finding = &result["findings"][0];
        let expected = json!({
            "kind": "missingEvent", "tenantId": 1, "orderId": order, "eventId": null,
            "eventType": "ORDER_CANCELLED", "consumer": null, "idempotencyKey": null, "what": finding["what"],
            "repaired": null
        });
        assert_eq!(*finding, expected);
    }
    let other_tenant = world.token(OTHER_USER, 2, &[Role::Operator]);
    let theirs = world.post(REPAIR).token(&other_tenant).send().await.expect(200, "00000");
    assert_eq!(theirs.data["findings"], json!([]));
    let repaired = world
        .post_as_operator(REPAIR)
        .json(r#"{"reason":"disk replaced"}"#)
        .send()
        .await
        .expect(200, "00000")
        .data;
    assert_eq!(
        (&repaired["sound"], &repaired["findings"][0]["repaired"]),
        (&json!(true), &json!("announced"))
    );
    let changes = world.audited_changes().await;
    let entry = &changes[0];
    assert_eq!((&entry["action"], &entry["changed"]), (&json!("reconciliation.repair"), &json!(1)));
    assert_eq!(entry["reason"], "disk replaced");
    assert_eq!(entry["selection"]["finding"], "missingEvent");
    world.wait_until_idle().await;
    let result = world.reconciled("").await;
    assert_eq!((&result["sound"], &result["findings"]), (&json!(true), &json!([])));
}

#[tokio::test(start_paused = true)]
async fn reconciliation_window_is_validated() {
    let world = World::new().await;
    for (query, field) in [
        ("from=yesterday", "from"),
        ("to=2026-01-31", "to"),
        ("from=2026-01-31T08:00:00Z", "from"),
        ("from=2026-02-01T00:00:00Z", "from"),
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("from=2025-12-01T00:00:00Z&to=2026-01-01T00:00:01Z", "from"),
        ("tenantId=0", "tenantId"),
        ("repair=true", "repair"),
        ("limit=1", "limit"),
    ] {
        let response = world.get_as_operator(&format!("{PATH}?{query}")).send().await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), [field], "{query}");
    }
    world.reconciled("?from=2025-12-01T00:00:00Z&to=2026-01-01T00:00:00Z").await;
    for (body, fields) in [
        ("[]", vec!["body"]),
        (r#"{"from":"yesterday","to":7,"tenantId":"1"}"#, vec!["from", "to", "tenantId"]),
        (r#"{"from":"2026-01-31T08:00:00Z"}"#, vec!["from"]),
        (r#"{"repair":true}"#, vec!["repair"]),
    ] {
        let response = world.post_as_operator(REPAIR).json(body).send().await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), fields, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn operator_reconciles_own_tenant_and_platform_operator_any_tenant() {
    let world = World::new().await;
    world.order().await;
    world.wait_until_idle().await;
    world.get_as(BUYER, PATH).send().await.expect(403, "A0303");
    world.post_as(BUYER, REPAIR).send().await.expect(403, "A0303");
    world.get_as_operator(&format!("{PATH}?tenantId=2")).send().await.expect(404, "A0404");
    world.post_as_operator(REPAIR).json(r#"{"tenantId":2}"#).send().await.expect(404, "A0404");
    let platform = world.token(OTHER_USER, 2, &[Role::Platform]);
    for (query, orders) in [("", 1), ("?tenantId=1", 1), ("?tenantId=2", 0)] {
        let result = world.get(&format!("{PATH}{query}")).token(&platform).send().await.expect(200, "00000");
        assert_eq!(result.data["orders"], orders, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn findings_are_listed_for_their_tenant_and_acknowledged_once_with_reason() {
    let world = World::new().await;
    let first = world.cancelled_without_event().await;
    let second = world.cancelled_without_event().await;
    world.run_until_idle().await;
    let began = world.reconciled("").await["to"].clone();
    let page = world.get_as_operator(FINDINGS).send().await.expect(200, "00000");
    let [newest, oldest] = page.data["items"].as_array().unwrap().as_slice() else { panic!("{}", page.text) };
    assert_eq!((&newest["orderId"], &oldest["orderId"]), (&json!(second), &json!(first)));
    let expected = json!({
        "findingId": oldest["findingId"], "kind": "missingEvent", "tenantId": 1, "orderId": first,
        "subject": format!("order:{first} type:ORDER_CANCELLED Order:{first}:2"), "what": oldest["what"],
        "state": "OPEN", "firstSeen": began, "lastSeen": began, "acknowledgedBy": null, "reason": null,
        "acknowledgeTime": null, "closedTime": null
    });
    assert_eq!(*oldest, expected);
    let limited = world.get_as_operator(&format!("{FINDINGS}?limit=1")).send().await.expect(200, "00000");
    let cursor = limited.data["nextCursor"].as_str().unwrap();
    let rest = world.get_as_operator(&format!("{FINDINGS}?limit=1&cursor={cursor}")).send().await;
    assert_eq!(rest.expect(200, "00000").data["items"], json!([oldest]));
    let wrong = world.get_as_operator(&format!("{FINDINGS}?state=open&tenantId=0&kind=x")).send().await;
    assert_eq!(wrong.expect(400, "A0400").wrong_fields(), ["state", "tenantId", "kind"]);

    let id = newest["findingId"].as_i64().unwrap();
    let path = format!("{FINDINGS}/{id}/acknowledge");
    let reason = r#"{"reason":"imported by hand"}"#;
    let foreign = || world.token(OTHER_USER, 2, &[Role::Operator]);
    world.post(&path).token(&foreign()).json(reason).send().await.expect(404, "A0404");
    assert_eq!(
        world.get(FINDINGS).token(&foreign()).send().await.expect(200, "00000").data["items"],
        json!([])
    );
    let of_tenant = format!("{FINDINGS}?tenantId=1");
    world.get(&of_tenant).token(&foreign()).send().await.expect(404, "A0404");
    world.post_as(BUYER, &path).json(reason).send().await.expect(403, "A0303");
    for unknown in ["9007199254740991", "0", "x"] {
        let path = format!("{FINDINGS}/{unknown}/acknowledge");
        world.post_as_operator(&path).json(reason).send().await.expect(404, "A0404");
    }
    let without = world.post_as_operator(&path).json("{}").send().await.expect(400, "A0400");
    assert_eq!(without.wrong_fields(), ["reason"]);
    let acknowledge = || world.post_as_operator(&path).header("x-idempotency-key", "k").json(reason);
    let acknowledged = acknowledge().send().await.expect(200, "00000");
    let repeated = acknowledge().send().await.expect(200, "00000");
    assert_eq!(repeated.header("idempotent-replayed"), Some("true"));
    assert_eq!(repeated.data, acknowledged.data);
    let decision = |data: &Value| json!([data["state"], data["acknowledgedBy"], data["reason"]]);
    let expected = json!(["ACKNOWLEDGED", "user:9", "imported by hand"]);
    assert_eq!(decision(&acknowledged.data), expected);
    let again = world.post_as_operator(&path).json(r#"{"reason":"another"}"#).send().await;
    assert_eq!(decision(&again.expect(200, "00000").data), expected);
    let changes = world.audited_changes().await;
    let entry = &changes[0];
    assert_eq!(entry["action"], "reconciliation.finding.acknowledge");
    assert_eq!(
        (&entry["reason"], &entry["selection"]),
        (&json!("imported by hand"), &json!({ "findingId": id }))
    );
    let open = world.get(&format!("{of_tenant}&state=OPEN"));
    let open = open.token(&world.token(OTHER_USER, 2, &[Role::Platform])).send().await;
    assert_eq!(open.expect(200, "00000").data["items"], json!([oldest]));
}
