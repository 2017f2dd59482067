//! The events that the marketplace needs although every consumer has settled them.

use std::collections::BTreeSet;

use handover_outbox::archive::NeededEvents;
use handover_outbox::operations::Reason;
use handover_outbox::ports::*;
use marketplace::EventsOfOpenCases;
use marketplace::ports::*;
use marketplace::use_cases::*;
use marketplace_domain::*;

use crate::invoices::{add, completed, generate, platform};
use crate::support::{BUYER, Process, TENANT, World, by, gateway, report};

/// Types of the events that the marketplace needs.
async fn needed(world: &World, process: &Process) -> BTreeSet<(String, i64)> {
    let rows = world.rows().await;
    let needed = EventsOfOpenCases::of(&process.app.tx).needed(&rows).await.unwrap();
    let needed_rows = rows.into_iter().filter(|row| needed.contains(&row.event_id));
    needed_rows.map(|row| (row.event_type, row.aggregate.id.number())).collect()
}

async fn write(world: &World, work: impl AsyncFnOnce(&mut Work)) {
    let mut unit = world.store.begin().await.unwrap();
    work(&mut *unit).await;
    unit.commit().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn events_of_an_order_are_needed_while_a_hold_of_it_is_pending() {
    let world = World::new().await;
    let process = world.process();
    let order = process.ordered().await;
    process.ordered().await;
    assert_eq!(needed(&world, &process).await, BTreeSet::new());
    let buyer = BUYER.try_into().unwrap();
    let frozen = Hold::frozen((TENANT, order.id), buyer, Asset::Wallet, 100, None, world.now());
    write(&world, async |unit| unit.put_holds(std::slice::from_ref(&frozen)).await.unwrap()).await;
    let of_order: BTreeSet<_> = needed(&world, &process).await.into_iter().map(|(_, id)| id).collect();
    assert_eq!(of_order, [order.id.get()].into());
    let released = Hold { status: HoldStatus::Released, version: 2, ..frozen };
    write(&world, async |unit| unit.put_holds(&[released]).await.unwrap()).await;
    assert_eq!(needed(&world, &process).await, BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn events_of_an_order_and_of_its_payment_are_needed_while_a_refund_is_pending() {
    let world = World::new().await;
    let process = world.process();
    let order = process.paid().await;
    process.paid().await;
    assert_eq!(needed(&world, &process).await, BTreeSet::new());
    let request = RequestRefund { order: order.id, reason: "too small".into(), off_shelf: false };
    process.app.payments.request_refund(&by(BUYER), request).await.unwrap();
    let needed = needed(&world, &process).await;
    let payments: BTreeSet<_> = needed.iter().filter(|(kind, _)| kind == "PAYMENT_SUCCEEDED").collect();
    let orders: BTreeSet<_> = needed.iter().filter(|(kind, _)| kind == "ORDER_PAID").collect();
    assert_eq!(payments.len(), 1, "{needed:?}");
    assert_eq!(orders, [&("ORDER_PAID".to_owned(), order.id.get())].into());
}

#[tokio::test(start_paused = true)]
async fn events_that_an_open_finding_names_are_needed() {
    let world = World::new().await;
    let process = world.process();
    let first = process.ordered().await;
    let second = process.ordered().await;
    let rows = world.rows().await;
    let created = |order: &Order| {
        let is_created =
            |row: &&OutboxRow| row.event_type == "ORDER_CREATED" && row.aggregate.id == order.id.get();
        rows.iter().find(is_created).unwrap().event_id.clone()
    };
    let open = |subject: String, order: Option<OrderId>| {
        RecordedFinding::new(ObservedFinding {
            tenant: Some(TENANT),
            kind: FindingKind::NotConsumed,
            subject,
            order,
            row_id: None,
            detail: "detail".into(),
            repaired_at: None,
            at: world.now(),
        })
    };
    let of_order = open(format!("order:{}", first.id), Some(first.id));
    let of_event = open(format!("event:{} consumer:credit", created(&second)), None);
    write(&world, async |unit| {
        unit.insert_finding(&of_order).await.unwrap();
        unit.insert_finding(&of_event).await.unwrap();
    })
    .await;
    let now_needed = needed(&world, &process).await;
    let ids_of = |kind: &str| -> Vec<i64> {
        now_needed.iter().filter(|(event_type, _)| event_type == kind).map(|(_, id)| *id).collect()
    };
    assert_eq!(ids_of("ORDER_CREATED"), [first.id.get(), second.id.get()]);
    assert_eq!(ids_of("ORDER_TIMEOUT"), [first.id.get()], "the other finding names one event");
}

#[tokio::test(start_paused = true)]
async fn events_of_an_invoice_are_needed_while_a_refund_or_a_finding_of_it_is_open() {
    let world = World::new().await;
    let process = world.process();
    add(
        &process,
        &[completed(1, 1, 8_850, "2026-01-15T00:00:00Z"), completed(2, 7, 8_850, "2026-01-15T00:00:00Z")],
    )
    .await;
    let invoice = generate(&process, 1, "2026-01").await.unwrap();
    generate(&process, 7, "2026-01").await.unwrap();
    let command = PayInvoice { invoice: invoice.id, method: None };
    let payment = process.app.payments.pay_invoice(&platform(), command).await.unwrap();
    process.app.payments.settle(&gateway(), report(&payment, PaymentResult::Success)).await.unwrap();
    assert_eq!(needed(&world, &process).await, BTreeSet::new());
    let of_invoice: BTreeSet<_> = [
        ("INVOICE_GENERATED".to_owned(), invoice.id.get()),
        ("PAYMENT_SUCCEEDED".to_owned(), payment.id.get()),
    ]
    .into();
    let finding = RecordedFinding::new(ObservedFinding {
        tenant: Some(TENANT),
        kind: FindingKind::InvoiceDiffers,
        subject: format!("invoice:{}", invoice.id),
        order: None,
        row_id: Some(invoice.id.get()),
        detail: "detail".into(),
        repaired_at: None,
        at: world.now(),
    });
    write(&world, async |unit| unit.insert_finding(&finding).await.unwrap()).await;
    assert_eq!(needed(&world, &process).await, of_invoice);
    let id = world.view().await.findings_page(FindingFilter::default(), None, 1).await.unwrap()[0].id;
    let resolved = finding.resolved(world.now() + chrono::TimeDelta::seconds(1)).unwrap();
    write(&world, async |unit| assert_eq!(unit.advance_finding(id, &resolved).await.unwrap(), Changed::One))
        .await;
    assert_eq!(needed(&world, &process).await, BTreeSet::new());
    let reason = Reason::new("billed twice".to_owned()).unwrap();
    let command = RefundInvoice { invoice: invoice.id, reason };
    process.app.payments.refund_invoice(&platform(), command).await.unwrap();
    assert_eq!(needed(&world, &process).await, of_invoice);
}
