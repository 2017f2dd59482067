//! Fixture of the access table: a market with resources in every relevant state.

use std::time::Duration;

use handover_outbox::archive::{Archive, ArchiveMark, MAX_RUN_EVENTS, RetentionPolicy};
use handover_outbox::ports::{OnFailed, OutboxFilter, Resolution, StatSample, Thousandths};
use handover_outbox::{WakeupNotifier, with_tx};
use marketplace::Settings;
use marketplace::service;
use serde_json::json;

use super::caller::{OTHER_BUYER, OTHER_SELLER};
use crate::world::{BUYER, SELLER, Setup, World, report};

/// Tables that background tasks change: relays, partition leases and id blocks. And the findings, which every
/// reconciliation records; an acknowledgement of one also changes the audit log.
const NO_STATE: [&str; 4] = ["relays ", "partitions ", "id_blocks ", "findings "];

/// Time after which all events have been applied.
const SETTLED: Duration = Duration::from_secs(2);

pub(crate) struct AccessFixture {
    pub(crate) world: World,
    names: Vec<(&'static str, String)>,
}

impl AccessFixture {
    pub(crate) async fn create() -> AccessFixture {
        let world = World::with(Setup { on_failed: OnFailed::Hold, ..World::with_metrics() }).await;
        let (blocked, failed) = world.failed_order().await;
        let (_, dead) = world.dead_order().await;
        world.deposit_to_buyer("50").await;
        world.grant_points_to_buyer(300).await;
        world.coupon("20").await;
        let hidden = world.product().await;
        let off = format!("/api/v1/products/{hidden}/off-shelf");
        world.post_as(SELLER, &off).send().await.expect(200, "00000");
        let product = world.product().await;
        let pending = world.order().await;
        let (paying, payment) = world.order_with_payment().await;
        let paid = paid_order(&world).await;
        let refunding = paid_order(&world).await;
        let refunds = format!("/api/v1/orders/{refunding}/refunds");
        let requested = world.post_as(BUYER, &refunds).json(r#"{"reason":"it is too tall"}"#).send().await;
        let refund = requested.expect(201, "00000").id("refundId");
        let shipped = shipped_order(&world).await;
        let completed = shipped_order(&world).await;
        let complete = format!("/api/v1/orders/{completed}/complete");
        world.post_as(BUYER, &complete).send().await.expect(200, "00000");
        let report = open_report(&world).await;
        let webhook = world.webhook().await;
        let delivery = world.dead_webhook_delivery(&webhook).await;
        others_order(&world).await;
        stat_sample(&world).await;
        let invoice = world.invoice("2025-11").await;
        let (paid_invoice, _) = world.paid_invoice("2025-09").await;
        service::start(&world.app, &WakeupNotifier::default(), &Settings::default());
        world.app.tx.sleep(SETTLED).await;
        let finding = recorded_finding(&world).await;
        let archived = archived_event(&world).await;
        // After the first run of the job that generates invoices.
        world.completed_order_at("2025-10-31T08:00:00Z").await;
        let id = |id: i64| id.to_string();
        let names = vec![
            ("{product}", id(product)),
            ("{hidden}", id(hidden)),
            ("{pending}", id(pending)),
            ("{paying}", id(paying)),
            ("{payment}", id(payment)),
            ("{paid}", id(paid)),
            ("{refunding}", id(refunding)),
            ("{refund}", id(refund)),
            ("{shipped}", id(shipped)),
            ("{report}", id(report)),
            ("{invoice}", id(invoice)),
            ("{paidInvoice}", id(paid_invoice)),
            ("{finding}", id(finding)),
            ("{webhook}", webhook),
            ("{delivery}", id(delivery)),
            ("{blocked}", id(blocked)),
            ("{failed}", failed[0].clone()),
            ("{dead}", dead),
            ("{archived}", archived),
        ];
        AccessFixture { world, names }
    }

    /// Replaces the names in braces by the ids of this fixture.
    pub(crate) fn named(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// All rows of the store, except those of [`NO_STATE`].
    pub(crate) fn rows(&self) -> Vec<String> {
        let mut rows = self.world.memory.rows();
        rows.retain(|row| !NO_STATE.iter().any(|table| row.starts_with(table)));
        rows
    }
}

/// Archives the settled events of one type; returns the id of one.
async fn archived_event(world: &World) -> String {
    let all_others = RetentionPolicy::new(Duration::from_secs(10 * 365 * 24 * 3_600));
    let policy = all_others.with_type("ORDER_STATUS_CHANGED", Duration::ZERO);
    let archive = Archive::of(&world.app.outbox).unwrap().with_policy(policy);
    let report = archive.run(&mut ArchiveMark::default(), MAX_RUN_EVENTS).await.unwrap();
    assert!(report.events > 0, "{report:?}");
    let mut view = world.app.outbox.view().await.unwrap();
    let page = view.outbox_view().archived_page(&OutboxFilter::default(), None, 1).await.unwrap();
    page[0].event_id.to_string()
}

async fn stat_sample(world: &World) {
    let outbox = &world.app.outbox;
    let sample = StatSample {
        resolution: Resolution::Minute,
        at: outbox.now(),
        metric: "rows".to_owned(),
        labels: String::new(),
        mean: Thousandths(1),
        max: Thousandths(1),
    };
    let adding = with_tx(&outbox.tx, sample, |unit, sample, _| {
        Box::pin(async move { unit.outbox().add_stat_samples(std::slice::from_ref(sample)).await })
    });
    adding.await.unwrap();
}

async fn paid_order(world: &World) -> i64 {
    let (order, payment) = world.order_with_payment().await;
    let report = report(payment, &format!("txn-of-{order}"), "SUCCESS", "88.50");
    world.callback(&report).await.expect(200, "00000");
    order
}

async fn shipped_order(world: &World) -> i64 {
    let order = paid_order(world).await;
    let shipment = r#"{"carrier":"SF","trackingNo":"SF-1"}"#;
    let ship = world.post_as(SELLER, &format!("/api/v1/orders/{order}/ship")).json(shipment);
    ship.send().await.expect(200, "00000");
    order
}

/// A report that needs a decision: a payment that had succeeded is reported as failed.
async fn open_report(world: &World) -> i64 {
    let (_, payment) = world.order_with_payment().await;
    for result in ["SUCCESS", "FAILED"] {
        let report = report(payment, &format!("txn-of-{payment}"), result, "88.50");
        world.callback(&report).await.expect(200, "00000");
    }
    let open = world.get_as_operator("/api/v1/ops/gateway-reports?state=OPEN").send().await;
    open.expect(200, "00000").ids("reportId")[0]
}

/// The recorded finding of the report that needs a decision.
async fn recorded_finding(world: &World) -> i64 {
    let path = "/api/v1/ops/reconciliation";
    world.get_as_operator(path).send().await.expect(200, "00000");
    let open = world.get_as_operator(&format!("{path}/findings?state=OPEN")).send().await;
    open.expect(200, "00000").ids("findingId")[0]
}

/// An order between two other users, who are not parties of any other order.
async fn others_order(world: &World) {
    let product = world.post_as(OTHER_SELLER, "/api/v1/products").json(r#"{"title":"a chair","price":7}"#);
    let product = product.send().await.expect(201, "00000").id("productId");
    let order = json!({ "productId": product }).to_string();
    world.post_as(OTHER_BUYER, "/api/v1/orders").json(order).send().await.expect(201, "00000");
}
