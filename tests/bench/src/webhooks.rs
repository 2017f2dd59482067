//! `webhooks`: sends a backlog of deliveries to the endpoints of a receiver on this machine, until the result of each is
//! recorded.

use std::num::NonZeroU32;

use handover_events::{EventId, TenantId, Trace};
use handover_outbox::operations::Operator;
use handover_outbox::ports::{BodyForm, EndpointId, NewWebhookDelivery};
use handover_outbox::webhooks::{EndpointChange, WebhookSettings, Webhooks};
use handover_outbox::with_tx;
use handover_runtime::config::Secret as ConfigSecret;
use handover_runtime::settings::WebhookConfig;
use handover_runtime::terminal::progress::Progress;
use handover_runtime::webhooks::webhooks;
use handover_webhooks::{Secret, SigningKey};
use marketplace::App;
use marketplace::consumers::webhook_offer;
use tokio::time::{Duration, Instant};

use crate::baseline_turns;
use crate::cli::Mode;
use crate::error::{BenchError, baseline_error, service_error};
use crate::fixture::Fixture;
use crate::measurement::{Measurement, rates, steps};
use crate::plan::Plan;
use crate::port_recorder::PortRecorder;
use crate::report::{Better, Figure};
use crate::series::alternate;
use crate::webhook_receiver::WebhookReceiver;

const UNIT: (&str, Better) = ("deliveries/s", Better::More);
const ENDPOINTS: u32 = 50;
/// Maximum number of concurrent requests to an endpoint.
const MAX_IN_FLIGHT: u32 = 2;
/// Maximum number of concurrent requests.
pub(crate) const CONCURRENCY: u32 = ENDPOINTS * MAX_IN_FLIGHT;
/// Number of deliveries that are inserted in one unit of work.
const ROWS_PER_UNIT: u32 = 500;
/// Interval at which a turn is polled for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// An endpoint of the receiver, for the baseline.
pub(crate) struct Endpoint {
    id: EndpointId,
    pub(crate) url: String,
    pub(crate) keys: [SigningKey; 1],
}

impl Endpoint {
    /// The id in the tables.
    pub(crate) fn id(&self) -> String {
        self.id.to_string()
    }
}

/// A backlog of deliveries.
struct Backlog {
    app: App,
    webhooks: Webhooks,
    endpoints: Vec<Endpoint>,
}

pub(crate) async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Figure>, BenchError> {
    progress.phase("webhooks", plan.turns());
    let receiver = WebhookReceiver::start().await?;
    let rounds = alternate(
        plan.rounds,
        progress,
        async || {
            let backlog = prepare(fixture, plan.events, &receiver).await?;
            send(fixture, plan.events, &backlog, &receiver).await
        },
        async || {
            let backlog = prepare(fixture, plan.events, &receiver).await?;
            baseline_turns::webhooks(fixture, backlog.endpoints).await
        },
    )
    .await?;
    let what = format!("{} deliveries, {ENDPOINTS} endpoints", plan.events);
    let mut figure = Figure::new(Mode::Webhooks, what, UNIT, rates(&rounds.service), rates(&rounds.baseline));
    figure.steps = steps(&rounds.service);
    figure.baseline_steps = steps(&rounds.baseline);
    Ok(vec![figure])
}

/// Creates the endpoints and inserts the deliveries, which are spread over the endpoints.
async fn prepare(
    fixture: &Fixture,
    deliveries: u32,
    receiver: &WebhookReceiver,
) -> Result<Backlog, BenchError> {
    fixture.clear().await?;
    receiver.reset();
    let app = fixture.app(&PortRecorder::default(), None);
    let config = WebhookConfig {
        key: Some(ConfigSecret::new("the key of the benchmark, which protects nothing".to_owned())),
        networks: vec!["127.0.0.0/8".parse().map_err(service_error)?],
        ..fixture.config.webhook.clone()
    };
    let webhooks = webhooks(&app.outbox, webhook_offer(), &config, &fixture.config.database)?;
    let webhooks = webhooks.ok_or_else(|| service_error("webhooks are off"))?;
    let endpoints = create_endpoints(&webhooks, receiver).await?;
    let mut first = 0;
    while first < deliveries {
        let end = deliveries.min(first + ROWS_PER_UNIT);
        let rows: Result<Vec<NewWebhookDelivery>, BenchError> =
            endpoints.iter().cycle().zip(first..end).map(|(to, n)| delivery(&app, to.id, n)).collect();
        with_tx(&app.outbox.tx, rows?, |unit, rows, _| {
            Box::pin(async move { unit.outbox().insert_webhook_deliveries(rows).await })
        })
        .await
        .map_err(service_error)?;
        first = end;
    }
    fixture.analyze().await?;
    Ok(Backlog { app, webhooks, endpoints })
}

async fn create_endpoints(
    webhooks: &Webhooks,
    receiver: &WebhookReceiver,
) -> Result<Vec<Endpoint>, BenchError> {
    let operator = Operator {
        name: "bench".to_owned(),
        tenant: TenantId::DEFAULT,
        sees_all_tenants: false,
        sees_personal_data: false,
        trace: Trace { trace_id: "bench".to_owned(), traceparent: None },
    };
    let mut endpoints = Vec::new();
    for n in 0..ENDPOINTS {
        let url = receiver.url(n);
        let change = EndpointChange {
            url: Some(url.clone()),
            event_types: Some(vec!["order.paid".to_owned()]),
            max_in_flight: Some(MAX_IN_FLIGHT),
            ..EndpointChange::default()
        };
        let created = webhooks.create(&operator, None, change).await.map_err(service_error)?;
        let secret: Secret = created.secret.shown.parse().map_err(service_error)?;
        endpoints.push(Endpoint { id: created.endpoint.id, url, keys: [SigningKey::Secret(secret)] });
    }
    Ok(endpoints)
}

fn delivery(app: &App, endpoint: EndpointId, n: u32) -> Result<NewWebhookDelivery, BenchError> {
    let event_id: EventId = format!("01930000-0000-7000-8000-{n:012}").parse().map_err(service_error)?;
    let body = format!(
        "{{\"type\":\"order.paid\",\"timestamp\":\"2026-01-01T00:00:00.000000Z\",\"data\":{{\"tenantId\":1,\
         \"eventId\":\"{event_id}\",\"aggregateType\":\"Order\",\"aggregateId\":{n},\"orderId\":{n},\
         \"orderNo\":\"202601010000000000000000\",\"totalAmount\":88.50,\"quantity\":1,\"price\":88.50}}}}"
    );
    Ok(NewWebhookDelivery {
        endpoint,
        tenant: TenantId::DEFAULT,
        event_id,
        redelivery: 0,
        event_type: "order.paid".to_owned(),
        order_key: format!("Order/{n}"),
        body,
        body_form: BodyForm::Thin,
        dead_because: None,
        at: app.tx.now(),
    })
}

async fn send(
    fixture: &Fixture,
    deliveries: u32,
    backlog: &Backlog,
    receiver: &WebhookReceiver,
) -> Result<Measurement, BenchError> {
    let Backlog { app, webhooks, .. } = backlog;
    let settings = WebhookSettings {
        concurrency: NonZeroU32::new(CONCURRENCY).unwrap_or(NonZeroU32::MIN),
        ..fixture.config.webhook.settings.clone()
    };
    let mut connection = fixture.connection().await?;
    fixture.statements.reset();
    let started = Instant::now();
    webhooks.dispatcher(settings).start();
    while receiver.received() < deliveries {
        app.tx.sleep(POLL_INTERVAL).await;
    }
    while connection.has_pending_deliveries().await.map_err(baseline_error("cannot read the deliveries"))? {
        app.tx.sleep(POLL_INTERVAL).await;
    }
    let duration = started.elapsed();
    let statements = fixture.statements.take();
    app.tx.tasks().stop().await;
    Ok(Measurement::new(u64::from(deliveries), duration).with_statements(statements))
}
