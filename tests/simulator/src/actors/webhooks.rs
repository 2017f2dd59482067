//! Operators of webhooks: they create, change, disable, enable and delete endpoints, and send events again.

use std::sync::{Arc, LazyLock};

use chrono::TimeDelta;
use handover_events::TenantId;
use handover_outbox::operations::Operator;
use handover_outbox::ports::{
    DeliveryFilter, EndpointId, EndpointStatus, WebhookDelivery, WebhookEndpoint, WebhookTransport,
};
use handover_outbox::webhooks::{EndpointChange, Offer, Recover, WebhookError, WebhookRetention, Webhooks};
use marketplace::App;
use marketplace::consumers::webhook_offer;

use super::{by_operator, tenants};
use crate::faults::Faults;

/// The event types that endpoints can ask for. They are the same in every run, and expensive to describe.
static OFFER: LazyLock<Arc<Offer>> = LazyLock::new(|| Arc::new(webhook_offer()));

/// The event types that endpoints can ask for.
pub(crate) fn offer() -> &'static Offer {
    &OFFER
}

/// The tenant whose receiver has this URL.
pub(crate) fn tenant_of_url(url: &str) -> Option<TenantId> {
    let tenant = url.strip_prefix("https://tenant-")?.strip_suffix(".example/events")?;
    tenant.parse::<i64>().ok().and_then(|tenant| TenantId::try_from(tenant).ok())
}

/// Patterns of event types. Those about webhooks also get the events about other endpoints of the tenant.
const PATTERNS: [&[&str]; 6] = [
    &["*"],
    &["order.*"],
    &["order.paid", "order.cancelled"],
    &["payment.*", "refund.*"],
    &["order.paid", "webhook.*"],
    &["order.created", "webhook.*"],
];

/// Operators of webhooks.
pub(crate) struct WebhookOperators<'a> {
    pub(crate) app: &'a App,
    pub(crate) faults: &'a Faults,
    /// Used for URLs and secrets only.
    pub(crate) transport: &'a Arc<dyn WebhookTransport>,
}

impl WebhookOperators<'_> {
    fn webhooks(&self) -> Webhooks {
        let transport = Arc::clone(self.transport);
        let keep = WebhookRetention::DEFAULT;
        Webhooks { outbox: self.app.outbox.clone(), offer: Arc::clone(&OFFER), transport, keep }
    }

    fn operator(&self, tenant: TenantId) -> Operator {
        by_operator(self.faults, tenant).operator().expect("the context must have the role operator")
    }

    /// Creates the endpoints that exist from the beginning: one to three of each tenant.
    pub(crate) async fn create_at_begin(&self) {
        for tenant in tenants() {
            for _ in 0..1 + self.faults.random.below(3) {
                let created = self.create(tenant).await.expect("creating endpoints without faults succeeds");
                self.faults.observed(|observed| observed.webhooks.initial.insert(created));
            }
        }
    }

    async fn create(&self, tenant: TenantId) -> Result<EndpointId, WebhookError> {
        let change = EndpointChange {
            url: Some(format!("https://tenant-{tenant}.example/events")),
            ..self.random_change()
        };
        let created = self.webhooks().create(&self.operator(tenant), None, change).await?.endpoint;
        self.faults.note("an operator", || format!("creates {}", described(&created)));
        Ok(created.id)
    }

    fn random_change(&self) -> EndpointChange {
        let random = &self.faults.random;
        let patterns = random.pick(&PATTERNS).copied().unwrap_or(&["*"]);
        let below = |n: u64| u32::try_from(random.below(n)).unwrap_or(0);
        EndpointChange {
            event_types: Some(patterns.iter().map(|pattern| (*pattern).to_owned()).collect()),
            is_ordered: Some(random.permille(500)),
            per_second: Some(random.permille(400).then(|| 2 + below(20))),
            max_in_flight: Some(1 + below(4)),
            ..EndpointChange::default()
        }
    }

    /// One random action.
    pub(crate) async fn act(&self) {
        let [first, second] = tenants();
        let tenant = if self.faults.random.permille(500) { first } else { second };
        if let Err(error) = self.act_as(tenant).await {
            self.faults.note("an operator", || format!("receives: {error}"));
        }
    }

    async fn act_as(&self, tenant: TenantId) -> Result<(), WebhookError> {
        let (webhooks, operator, random) = (self.webhooks(), self.operator(tenant), &self.faults.random);
        let endpoints = webhooks.list(&operator, None).await?;
        if let Some(other) = endpoints.iter().find(|endpoint| endpoint.tenant != tenant) {
            self.faults.violation(format!("an operator of tenant {tenant} saw endpoint {}", other.id));
        }
        let Some(endpoint) = random.pick(&endpoints) else {
            return self.create(tenant).await.map(|_| ());
        };
        let id = endpoint.id;
        let is_disabled = endpoint.status == EndpointStatus::Disabled;
        let choice = random.below(20);
        self.faults.note("an operator", || format!("chooses {choice} for {}", described(endpoint)));
        match choice {
            0..=2 => drop(webhooks.update(&operator, id, self.random_change()).await?),
            3..=5 if !is_disabled => drop(webhooks.disable(&operator, id, None).await?),
            6 => drop(webhooks.delete(&operator, id).await?),
            7 => drop(self.create(tenant).await?),
            8..=10 => self.recover_endpoint(&operator, id, random.permille(500)).await?,
            11..=13 => self.redeliver(&operator, id).await?,
            14 => self.use_foreign_endpoint(&webhooks, id).await,
            _ => drop(webhooks.enable(&operator, id).await?),
        }
        Ok(())
    }

    async fn recover_endpoint(
        &self,
        operator: &Operator,
        id: EndpointId,
        include_missing: bool,
    ) -> Result<(), WebhookError> {
        self.faults.observed(|observed| observed.webhooks.recovered.insert(id));
        let now = self.app.tx.now();
        let command = Recover {
            since: now - TimeDelta::days(1),
            // The clocks of the processes that wrote the deliveries may have been ahead.
            until: Some(now + TimeDelta::hours(1)),
            include_missing,
            after: None,
            dry_run: false,
        };
        let recovered = self.webhooks().recover(operator, id, command).await?;
        self.faults.note("an operator", || {
            let (resent, created) = (recovered.resent, recovered.created);
            format!("sends {resent} deliveries of endpoint {id} again and creates {created}")
        });
        Ok(())
    }

    async fn redeliver(&self, operator: &Operator, id: EndpointId) -> Result<(), WebhookError> {
        let webhooks = self.webhooks();
        let page = webhooks.deliveries(operator, id, &DeliveryFilter::default(), None, 20).await?;
        let Some(WebhookDelivery { id: delivery, event_id, .. }) = self.faults.random.pick(&page.items)
        else {
            return Ok(());
        };
        webhooks.redeliver(operator, id, *delivery).await?;
        self.faults.note("an operator", || format!("sends {event_id} to endpoint {id} again"));
        self.faults.cover(|coverage| coverage.situation("webhook redelivered by an operator"));
        Ok(())
    }

    /// An operator of another tenant must not see or change the endpoint.
    async fn use_foreign_endpoint(&self, webhooks: &Webhooks, id: EndpointId) {
        let outsiders = self.operator(TenantId::try_from(3).expect("a valid id"));
        if webhooks.show(&outsiders, id).await.is_ok() || webhooks.disable(&outsiders, id, None).await.is_ok()
        {
            self.faults.violation(format!("an operator of another tenant used endpoint {id}"));
        }
    }

    /// After the fault phase: enables every endpoint, and sends `DEAD` deliveries again.
    pub(crate) async fn recover(&self) {
        for tenant in tenants() {
            if let Err(error) = self.recover_as(tenant).await {
                self.faults.violation(format!("without faults, the recovery of webhooks failed: {error}"));
            }
        }
    }

    async fn recover_as(&self, tenant: TenantId) -> Result<(), WebhookError> {
        let (webhooks, operator) = (self.webhooks(), self.operator(tenant));
        for endpoint in webhooks.list(&operator, None).await? {
            // Enabling also ends the pause that a receiver asked for.
            if endpoint.status == EndpointStatus::Disabled || endpoint.health.paused_until.is_some() {
                webhooks.enable(&operator, endpoint.id).await?;
            }
            self.recover_endpoint(&operator, endpoint.id, false).await?;
        }
        Ok(())
    }
}

fn described(endpoint: &WebhookEndpoint) -> String {
    let WebhookEndpoint { id, tenant, status, event_types, .. } = endpoint;
    format!("endpoint {id} of tenant {tenant}, which is {} and asks for {event_types:?}", status.as_str())
}
