//! Invoices: generated once per tenant and month, by the job and by operators.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{TenantId, Trace};
use handover_outbox::jobs::{LEADER_LEASE_MS, Leader};
use handover_outbox::ports::{AuditFilter, StoreError};
use marketplace::jobs::Invoices;
use marketplace::ports::{FindingFilter, InvoiceFilter};
use marketplace::use_cases::operations::{GRACE, Reconcile};
use marketplace::use_cases::*;
use marketplace::{Actor, CommandContext, InvoiceSettings, Role, service};
use marketplace_domain::*;

use crate::support::{CommitFault, Process, World, pass, secs};

const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn tenant(number: i64) -> TenantId {
    number.try_into().unwrap()
}

fn period(text: &str) -> BillingPeriod {
    text.parse().unwrap()
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

pub(crate) fn operator(of: i64, roles: &[Role]) -> CommandContext {
    CommandContext {
        actor: Actor::User { id: 90.try_into().unwrap(), roles: roles.to_vec() },
        tenant: tenant(of),
        trace: Trace { trace_id: "by-hand".into(), traceparent: None },
        request_id: None,
    }
}

pub(crate) fn platform() -> CommandContext {
    operator(1, &[Role::Platform])
}

/// A completed order of this tenant.
pub(crate) fn completed(id: i64, of: i64, total: i64, complete_time: &str) -> Order {
    let time = at(complete_time);
    Order {
        id: id.try_into().unwrap(),
        order_no: OrderNo::stored(format!("{id}")),
        tenant: tenant(of),
        product: id.try_into().unwrap(),
        buyer: 10.try_into().unwrap(),
        seller: 20.try_into().unwrap(),
        status: OrderStatus::Completed,
        cancel_reason: None,
        total: Money::from_minor(total).unwrap(),
        assets: OrderAssets::NONE,
        payable: Money::from_minor(total).unwrap(),
        refund: None,
        shipment: None,
        version: 4,
        create_time: time - TimeDelta::days(9),
        pay_time: Some(time - TimeDelta::days(8)),
        complete_time: Some(time),
        update_time: time,
    }
}

pub(crate) async fn add(process: &Process, orders: &[Order]) {
    let mut unit = process.app.tx.store().begin().await.unwrap();
    for order in orders {
        unit.insert_order(order).await.unwrap();
    }
    unit.commit().await.unwrap();
}

fn job(process: &Process, from: Option<&str>) -> Invoices {
    let settings = InvoiceSettings::new(from.map(period), DAY * 3);
    Invoices { invoicing: process.app.invoicing.clone(), settings }
}

/// Tenant, period, number of orders and total of each invoice, newest first.
async fn invoices(world: &World) -> Vec<(i64, String, u32, String)> {
    let page = world.view().await.invoices_page(InvoiceFilter::default(), None, 1_000).await.unwrap();
    let row = |it: Invoice| (it.tenant.get(), it.period.to_string(), it.orders, it.total.to_string());
    page.into_iter().map(row).collect()
}

fn row(of: i64, month: &str, orders: u32, total: &str) -> (i64, String, u32, String) {
    (of, month.into(), orders, total.into())
}

pub(crate) async fn generate(
    process: &Process,
    of: i64,
    month: &str,
) -> Result<Invoice, UseCaseError<InvoiceRefusal>> {
    let command = GenerateInvoice { tenant: Some(tenant(of)), period: period(month) };
    process.app.invoicing.generate(&platform(), command).await
}

/// The world's clock begins on 4 February.
#[tokio::test(start_paused = true)]
async fn job_bills_the_completed_orders_of_each_closed_month_of_each_tenant() {
    let world = World::new().await;
    let process = world.process();
    add(
        &process,
        &[
            completed(1, 1, 8_850, "2026-01-01T00:00:00Z"),
            completed(2, 1, 20, "2026-01-31T23:59:59.999999Z"),
            completed(3, 1, 9_900, "2026-02-01T00:00:00Z"),
            completed(4, 7, 100_000, "2026-01-15T12:00:00Z"),
            completed(5, 1, 4_000, "2025-11-30T12:00:00Z"),
            Order {
                status: OrderStatus::Shipped,
                complete_time: None,
                ..completed(6, 1, 9_900, "2026-01-09T00:00:00Z")
            },
        ],
    )
    .await;
    let job = job(&process, None);
    for _ in 0..2 {
        job.generate_due().await.unwrap();
        let expected =
            [row(7, "2026-01", 1, "25.00"), row(1, "2026-01", 2, "2.22"), row(1, "2025-11", 1, "1.00")];
        assert_eq!(invoices(&world).await, expected);
    }
    pass(DAY * 30).await;
    job.generate_due().await.unwrap();
    assert_eq!(invoices(&world).await.first(), Some(&row(1, "2026-02", 1, "2.48")));
    let mut view = world.view().await;
    let january = view.invoice_of_period(tenant(1), period("2026-01")).await.unwrap().unwrap();
    let lines = view.invoice_lines(january.id, None, 9).await.unwrap();
    let fees: Vec<_> = lines.iter().map(|line| (line.order.get(), line.fee.to_string())).collect();
    assert_eq!(fees, [(1, "2.21".to_owned()), (2, "0.01".to_owned())]);
    drop(view);
    let rows = world.rows().await;
    let events: Vec<_> = rows.iter().filter(|row| row.event_type == "INVOICE_GENERATED").collect();
    assert_eq!(events.len(), 4);
    let event = events.iter().find(|row| row.aggregate.id == january.id.get()).unwrap();
    assert_eq!((event.aggregate.tenant, event.aggregate_seq), (tenant(1), 1));
    assert_eq!(event.trace_id(), "invoice-1-2026-01");
    let payload = format!(
        r#"{{"invoiceId":{},"periodStart":"2026-01-01","periodEnd":"2026-01-31","total":2.22,"currency":"CNY"}}"#,
        january.id
    );
    assert_eq!(event.payload, payload);
}

#[tokio::test(start_paused = true)]
async fn month_is_invoiced_some_time_after_its_end_and_not_before_the_first_month() {
    let world = World::new().await;
    let process = world.process();
    add(
        &process,
        &[
            completed(1, 1, 8_850, "2026-02-03T00:00:00Z"),
            completed(2, 1, 8_850, "2026-01-03T00:00:00Z"),
            completed(3, 1, 8_850, "2025-12-03T00:00:00Z"),
        ],
    )
    .await;
    let job = job(&process, Some("2026-01"));
    job.generate_due().await.unwrap();
    assert_eq!(invoices(&world).await, [row(1, "2026-01", 1, "2.21")]);
    let begun = process.faults.begun_units();
    job.generate_due().await.unwrap();
    assert_eq!(process.faults.begun_units(), begun, "a month with an invoice needs no unit of work");
    // The last moment of 3 March.
    let due = at("2026-03-04T00:00:00Z");
    pass((due - world.now()).to_std().unwrap() - Duration::from_millis(1)).await;
    job.generate_due().await.unwrap();
    assert_eq!(invoices(&world).await.len(), 1);
    pass(Duration::from_millis(1)).await;
    job.generate_due().await.unwrap();
    assert_eq!(invoices(&world).await.first(), Some(&row(1, "2026-02", 1, "2.21")));
}

#[tokio::test(start_paused = true)]
async fn month_is_never_invoiced_before_it_is_closed() {
    let world = World::new().await;
    let process = world.process();
    add(&process, &[completed(1, 1, 8_850, "2026-02-28T23:59:59Z")]).await;
    let settings = InvoiceSettings::new(None, Duration::from_millis(1));
    let job = Invoices { invoicing: process.app.invoicing.clone(), settings };
    pass((at("2026-03-01T00:14:59Z") - world.now()).to_std().unwrap()).await;
    job.generate_due().await.unwrap();
    assert_eq!(invoices(&world).await, []);
    pass(secs(1)).await;
    job.generate_due().await.unwrap();
    assert_eq!(invoices(&world).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn job_runs_on_the_leader_and_often_enough_for_a_short_time() {
    assert_eq!(InvoiceSettings::default().interval, secs(3600));
    let world = World::new().await;
    let process = world.process();
    add(&process, &[completed(1, 1, 8_850, "2026-01-03T00:00:00Z")]).await;
    let settings = InvoiceSettings::new(None, secs(20));
    assert_eq!(settings.interval, secs(2));
    let job = Invoices { invoicing: process.app.invoicing.clone(), settings };
    job.start(&Leader::start(&process.app.outbox.tx, "jobs", LEADER_LEASE_MS));
    pass(secs(5)).await;
    assert_eq!(invoices(&world).await.len(), 1);
    let jobs = world.view().await.outbox_view().job_records().await.unwrap();
    assert!(jobs.iter().any(|it| it.job == "Invoices" && it.last_success.is_some()), "{jobs:?}");
}

#[tokio::test(start_paused = true)]
async fn operator_of_all_tenants_generates_an_invoice_once() {
    let world = World::new().await;
    let process = world.process();
    add(
        &process,
        &[completed(1, 1, 8_850, "2026-01-03T00:00:00Z"), completed(2, 7, 8_850, "2026-01-03T00:00:00Z")],
    )
    .await;
    let first = generate(&process, 7, "2026-01").await.unwrap();
    assert_eq!((first.tenant, first.total.to_string().as_str()), (tenant(7), "2.21"));
    assert_eq!(generate(&process, 7, "2026-01").await.unwrap(), first);
    let command = GenerateInvoice { tenant: None, period: period("2026-01") };
    assert_eq!(process.app.invoicing.generate(&platform(), command).await.unwrap().tenant, tenant(1));
    assert_eq!(invoices(&world).await.len(), 2);
    for (of, month, refusal) in [
        (7, "2026-02", "the period 2026-02 is not closed; it can be invoiced from 2026-03-01T00:15:00Z"),
        (7, "2027-02", "the period 2027-02 is not closed; it can be invoiced from 2027-03-01T00:15:00Z"),
        (7, "2025-12", "no order was completed in the period 2025-12"),
        (8, "2026-01", "no such tenant"),
    ] {
        let refused = generate(&process, of, month).await.unwrap_err();
        assert_eq!(refused.to_string(), refusal);
    }
    for roles in [&[Role::Operator][..], &[Role::User], &[]] {
        let refused = process.app.invoicing.generate(&operator(1, roles), command).await;
        assert!(matches!(refused, Err(UseCaseError::NotAllowed(_))), "{refused:?}");
    }
    assert_eq!(invoices(&world).await.len(), 2);
    let audited =
        world.view().await.outbox_view().audit_page(&AuditFilter::default(), None, 9).await.unwrap();
    assert!(audited.iter().all(|it| it.effect.action == "invoice.generate"), "{audited:?}");
    let audited: Vec<_> = audited.iter().map(|it| (it.effect.tenant.get(), it.effect.changed)).collect();
    assert_eq!(audited, [(1, 1), (7, 0), (7, 1)]);
}

#[tokio::test(start_paused = true)]
async fn operators_see_the_invoices_of_their_tenant() {
    let world = World::new().await;
    let process = world.process();
    add(
        &process,
        &[
            completed(1, 1, 8_850, "2026-01-03T00:00:00Z"),
            completed(2, 7, 8_850, "2026-01-03T00:00:00Z"),
            completed(3, 7, 8_850, "2026-01-04T00:00:00Z"),
        ],
    )
    .await;
    job(&process, None).generate_due().await.unwrap();
    let invoicing = &process.app.invoicing;
    let query = ListInvoices { limit: 9, ..ListInvoices::default() };
    let seen = async |context: CommandContext| {
        let page = invoicing.list(&context, query).await.unwrap();
        page.items.iter().map(|it| it.tenant.get()).collect::<Vec<_>>()
    };
    assert_eq!(seen(operator(1, &[Role::Operator])).await, [1]);
    assert_eq!(seen(operator(8, &[Role::Operator])).await, [0; 0]);
    assert_eq!(seen(platform()).await, [7, 1]);
    let of_seven = world.view().await.invoice_of_period(tenant(7), period("2026-01")).await.unwrap().unwrap();
    let foreign = invoicing.find(&operator(1, &[Role::Operator]), of_seven.id, None, 9).await;
    assert!(matches!(foreign, Err(UseCaseError::NotFound { what: "invoice" })), "{foreign:?}");
    let first = invoicing.find(&operator(7, &[Role::Operator]), of_seven.id, None, 1).await.unwrap();
    assert_eq!((first.lines.items.len(), first.lines.next), (1, Some(2)));
    let second = invoicing.find(&platform(), of_seven.id, 2.try_into().ok(), 1).await.unwrap();
    assert_eq!((second.lines.items[0].order.get(), second.lines.next), (3, None));
    let user = invoicing.list(&operator(1, &[Role::User]), query).await;
    assert!(matches!(user, Err(UseCaseError::NotAllowed(_))), "{user:?}");
}

/// Findings of the reconciliation of all tenants: invoice, order and description.
async fn findings(process: &Process) -> Vec<(String, Option<i64>, String)> {
    let now = process.app.now();
    let command = Reconcile {
        tenant: None,
        since: now - TimeDelta::days(1),
        until: now + TimeDelta::seconds(1),
        grace: GRACE,
        repair: true,
        reason: None,
    };
    let operator = platform().operator().unwrap();
    let result = process.app.operations.reconcile(&operator, command).await.unwrap();
    let of_invoices = result.findings.into_iter().filter(|it| it.kind == FindingKind::InvoiceDiffers);
    of_invoices.map(|it| (it.key.unwrap(), it.order.map(OrderId::get), it.what)).collect()
}

#[tokio::test(start_paused = true)]
async fn reconciliation_compares_invoices_with_their_lines_and_with_the_completed_orders() {
    let world = World::new().await;
    let process = world.process();
    service::prepare(&process.app).await.unwrap();
    add(&process, &[completed(1, 1, 8_850, "2026-01-03T00:00:00Z")]).await;
    let id = generate(&process, 1, "2026-01").await.unwrap().id;
    assert_eq!(findings(&process).await, []);
    // As an order that an SQL statement moves into the invoiced month, and lines that one adds.
    add(
        &process,
        &[completed(2, 1, 20, "2026-01-04T00:00:00Z"), completed(3, 1, 20, "2026-02-01T00:00:00Z")],
    )
    .await;
    let line = |order: i64, fee: i64| InvoiceLine {
        tenant: tenant(1),
        invoice: id,
        order: order.try_into().unwrap(),
        order_total: Money::from_minor(20).unwrap(),
        fee: Money::from_minor(fee).unwrap(),
        complete_time: at("2026-01-04T00:00:00Z"),
    };
    let add_line = async |line: InvoiceLine| {
        let mut unit = process.app.tx.store().begin().await.unwrap();
        unit.insert_invoice_lines(&[line]).await.unwrap();
        unit.commit().await.unwrap();
    };
    let key = format!("invoice:{id}");
    let finding = |order: Option<i64>, what: String| (key.clone(), order, what);
    let missing =
        finding(Some(2), format!("order 2 was completed in 2026-01, but invoice {id} has no line of it"));
    assert_eq!(findings(&process).await, [missing]);
    add_line(line(2, 2)).await;
    add_line(line(3, 1)).await;
    let total = format!("invoice {id} has 1 orders and a total of 2.21, but 3 lines over 2.24");
    let differs = format!(
        "the line of order 2 in invoice {id} differs from the total of the order, or from its fee of 250 bps"
    );
    let foreign = format!("invoice {id} has a line of order 3, which was not completed in 2026-01");
    let expected = [finding(None, total), finding(Some(2), differs), finding(Some(3), foreign)];
    assert_eq!(findings(&process).await, expected);
    let filter = FindingFilter { tenant: Some(tenant(1)), state: None };
    let recorded = world.view().await.findings_page(filter, None, 99).await.unwrap();
    let states: Vec<_> = recorded
        .iter()
        .filter(|it| it.effect.kind == FindingKind::InvoiceDiffers)
        .map(|it| (it.effect.order.map(OrderId::get), it.effect.state))
        .collect();
    let open = FindingState::Open;
    assert_eq!(states, [(Some(3), open), (None, open), (Some(2), open)]);
}

/// Two processes, whose commits fail in every way, and an operator bill the same months.
#[tokio::test(start_paused = true)]
async fn invoice_is_generated_once_by_concurrent_processes_with_failing_commits() {
    for turn in 0..24 {
        let world = World::new().await;
        let processes = [world.process(), world.process()];
        let orders: Vec<Order> = (1..=30)
            .map(|id| completed(id, 1 + id % 2, 8_850, &format!("2025-{:02}-03T00:00:00Z", 10 + id % 3)))
            .collect();
        add(&processes[0], &orders).await;
        let faults = [CommitFault::ReplyLost, CommitFault::Lost, CommitFault::None, CommitFault::Transient];
        for (number, process) in processes.iter().enumerate() {
            let start = turn + number;
            process.faults.next_commits((0..12).map(|it| faults[(start + it * (1 + turn / 4)) % 4]));
        }
        let run = async |process: &Process| {
            let job = job(process, None);
            while job.generate_due().await.is_err() {}
        };
        let by_hand = generate(&processes[1], 2, "2025-10");
        let (_, _, by_hand) = tokio::join!(run(&processes[0]), run(&processes[1]), by_hand);
        if let Ok(invoice) = by_hand {
            assert_eq!((invoice.tenant, invoice.period), (tenant(2), period("2025-10")));
        }
        let all = invoices(&world).await;
        let keys: BTreeSet<_> = all.iter().map(|(of, month, ..)| (*of, month.clone())).collect();
        assert_eq!((all.len(), keys.len()), (6, 6), "{all:?}");
        assert!(all.iter().all(|(_, _, orders, total)| (*orders, total.as_str()) == (5, "11.05")), "{all:?}");
        let events = world.rows().await.iter().filter(|row| row.event_type == "INVOICE_GENERATED").count();
        assert_eq!(events, 6);
    }
}

#[tokio::test(start_paused = true)]
async fn tenant_whose_invoice_fails_holds_back_no_other_and_the_run_fails() {
    let world = World::new().await;
    let process = world.process();
    add(
        &process,
        &[completed(1, 1, 8_850, "2026-01-03T00:00:00Z"), completed(2, 7, 8_850, "2026-01-03T00:00:00Z")],
    )
    .await;
    let job = job(&process, None);
    // The block of invoice ids is taken by the first commit.
    process.faults.next_commits(std::iter::repeat_n(CommitFault::Transient, 8));
    let failed = job.generate_due().await;
    assert!(matches!(failed, Err(StoreError::Transient(_))), "{failed:?}");
    assert_eq!(invoices(&world).await, [row(7, "2026-01", 1, "2.21")]);
    job.generate_due().await.unwrap();
    assert_eq!(invoices(&world).await.len(), 2);
}
