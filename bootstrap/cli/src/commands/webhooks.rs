//! `webhook ...`: change and read the database directly, also while a process serves it; a running process sends.

use std::collections::BTreeMap;

use handover_http::views::{RecoveredView, WebhookDeliveryView, WebhookView, WebhookWithSecretView};
use handover_outbox::Page;
use handover_outbox::ports::{BodyForm, DeliveryFilter, EndpointId, WebhookEndpoint};
use handover_outbox::webhooks::{
    EndpointChange, NewEndpoint, Recover, Recovered, RotatedKeys, WebhookError, Webhooks,
};
use handover_runtime::terminal::{OutputArgs, note, say};

use crate::access::Reach;
use crate::args::{
    EndpointArgs, Removable, WebhookCreateArgs, WebhookDeliveriesArgs, WebhookDisableArgs,
    WebhookEndpointArgs, WebhookListArgs, WebhookRecoverArgs, WebhookRedeliverArgs, WebhookRotateKeyArgs,
    WebhookRotateSecretArgs, WebhookTestArgs, WebhookUpdateArgs,
};
use crate::commands::changes::note_remaining;
use crate::failure::CommandFailure;
use crate::print::{list, show};
use crate::webhook_access::WebhookAccess;

/// An opened session and its webhooks.
struct Opened<A> {
    session: A,
    webhooks: Webhooks,
}

impl<A: WebhookAccess> Opened<A> {
    async fn new(source: &A::Source, flags: &A::Flags) -> Result<Opened<A>, A::Failure> {
        let session = A::open(source, flags, Reach::Store).await?;
        let webhooks = session.webhooks()?;
        Ok(Opened { session, webhooks })
    }

    /// Ends the command: closes the database and returns the result.
    async fn end<T>(
        &self,
        result: Result<T, WebhookError>,
        endpoint: Option<EndpointId>,
    ) -> Result<T, A::Failure> {
        self.session.close().await;
        result.map_err(|error| self.session.webhook_failed(error, endpoint))
    }

    fn print(&self, output: &OutputArgs, endpoint: WebhookEndpoint) -> Result<(), A::Failure> {
        Ok(show(output.output, &WebhookView::new(endpoint, self.webhooks.outbox.now()))?)
    }

    /// Prints an endpoint with its new secret.
    fn print_new(&self, output: &OutputArgs, new: NewEndpoint) -> Result<(), A::Failure> {
        note("the secret is not shown again");
        let NewEndpoint { endpoint, secret } = new;
        let now = self.webhooks.outbox.now();
        Ok(show(output.output, &WebhookWithSecretView::new(endpoint, now, Some(secret.shown)))?)
    }
}

/// `webhook create`.
pub(crate) async fn create<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookCreateArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let change = EndpointChange {
        url: Some(arguments.url.clone()),
        event_types: Some(arguments.types.clone()),
        ..change(&arguments.endpoint, &[])?
    };
    let opened = Opened::<A>::new(source, &arguments.common).await?;
    let created = opened.webhooks.create(opened.session.operator(), Some(arguments.tenant), change).await;
    let created = opened.end(created, None).await?;
    opened.print_new(&arguments.output, created)
}

/// `webhook update`.
pub(crate) async fn update<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookUpdateArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let of = &arguments.of;
    let change = EndpointChange {
        url: arguments.url.clone(),
        event_types: Some(arguments.types.clone()).filter(|types| !types.is_empty()),
        ..change(&arguments.values, &arguments.remove)?
    };
    let opened = Opened::<A>::new(source, &of.common).await?;
    let updated = opened.webhooks.update(opened.session.operator(), of.endpoint, change).await;
    let updated = opened.end(updated, Some(of.endpoint)).await?;
    opened.print(&of.output, updated)
}

/// The named properties, and those that are removed.
fn change(arguments: &EndpointArgs, removed: &[Removable]) -> Result<EndpointChange, CommandFailure> {
    let removes = |property| removed.contains(&property).then_some(None);
    let set = headers(arguments.all_headers())?;
    let headers = (!set.is_empty() || removed.contains(&Removable::Headers)).then_some(set);
    let body_form = match (arguments.unmasked, arguments.full) {
        (true, _) => Some(BodyForm::Unmasked),
        (false, Some(true)) => Some(BodyForm::Full),
        (false, Some(false)) => Some(BodyForm::Thin),
        (false, None) => None,
    };
    Ok(EndpointChange {
        url: None,
        event_types: None,
        description: arguments.description.clone().map(Some).or(removes(Removable::Description)),
        is_ordered: arguments.ordered,
        body_form,
        signs_asymmetrically: arguments.asymmetric,
        per_second: arguments
            .per_second
            .map(Some)
            .or(removed.contains(&Removable::PerSecond).then_some(None)),
        max_in_flight: arguments.max_in_flight,
        headers,
    })
}

/// The headers by name. Names that differ only in case are the same header.
fn headers<'a>(
    named: impl Iterator<Item = &'a (String, String)>,
) -> Result<BTreeMap<String, String>, CommandFailure> {
    let mut headers = BTreeMap::new();
    for (name, value) in named {
        if headers.insert(name.to_ascii_lowercase(), value.clone()).is_some() {
            let what = format!("headers: the header {name} is set twice");
            return Err(CommandFailure::Usage { what, remedy: "set each header once".to_owned() });
        }
    }
    Ok(headers)
}

/// `webhook list`.
pub(crate) async fn list_endpoints<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookListArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let opened = Opened::<A>::new(source, &arguments.common).await?;
    let items = opened.webhooks.list(opened.session.operator(), Some(arguments.tenant)).await;
    let items = opened.end(items, None).await?;
    let now = opened.webhooks.outbox.now();
    let view = |endpoint| WebhookView::new(endpoint, now);
    Ok(list(arguments.output.output, Page { items, next: None }, view)?)
}

/// `webhook show`.
pub(crate) async fn show_endpoint<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookEndpointArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let opened = Opened::<A>::new(source, &arguments.common).await?;
    let details = opened.webhooks.show(opened.session.operator(), arguments.endpoint).await;
    let details = opened.end(details, Some(arguments.endpoint)).await?;
    let view = WebhookView::with_details(details, opened.webhooks.outbox.now());
    Ok(show(arguments.output.output, &view)?)
}

/// `webhook enable`.
pub(crate) async fn enable<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookEndpointArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let opened = Opened::<A>::new(source, &arguments.common).await?;
    let enabled = opened.webhooks.enable(opened.session.operator(), arguments.endpoint).await;
    let enabled = opened.end(enabled, Some(arguments.endpoint)).await?;
    opened.print(&arguments.output, enabled)
}

/// `webhook disable`.
pub(crate) async fn disable<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookDisableArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let of = &arguments.of;
    let opened = Opened::<A>::new(source, &of.common).await?;
    let reason = arguments.reason.clone();
    let disabled = opened.webhooks.disable(opened.session.operator(), of.endpoint, reason).await;
    let disabled = opened.end(disabled, Some(of.endpoint)).await?;
    opened.print(&of.output, disabled)
}

/// `webhook delete`.
pub(crate) async fn delete<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookEndpointArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let opened = Opened::<A>::new(source, &arguments.common).await?;
    let deleted = opened.webhooks.delete(opened.session.operator(), arguments.endpoint).await;
    let deleted = opened.end(deleted, Some(arguments.endpoint)).await?;
    opened.print(&arguments.output, deleted)
}

/// `webhook rotate-secret`.
pub(crate) async fn rotate_secret<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookRotateSecretArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let of = &arguments.of;
    let opened = Opened::<A>::new(source, &of.common).await?;
    let overlap = arguments.overlap_hours;
    let rotated = opened.webhooks.rotate_secret(opened.session.operator(), of.endpoint, overlap).await;
    let rotated = opened.end(rotated, Some(of.endpoint)).await?;
    opened.print_new(&of.output, rotated)
}

/// `webhook rotate-key`.
pub(crate) async fn rotate_key<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookRotateKeyArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let opened = Opened::<A>::new(source, &arguments.common).await?;
    let rotated = opened.webhooks.rotate_key(opened.session.operator()).await;
    let RotatedKeys { changed, failed } = opened.end(rotated, None).await?;
    say(&format!("{changed} endpoints are encrypted with the current key now\n"))?;
    for (_, error) in &failed {
        note(&error.to_string());
    }
    if failed.is_empty() { Ok(()) } else { Err(CommandFailure::NotEncrypted { failed: failed.len() }.into()) }
}

/// `webhook test`.
pub(crate) async fn test<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookTestArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let of = &arguments.of;
    let opened = Opened::<A>::new(source, &of.common).await?;
    let sent = opened.webhooks.test(opened.session.operator(), of.endpoint, &arguments.event_type).await;
    let sent = opened.end(sent, Some(of.endpoint)).await?;
    Ok(show(of.output.output, &WebhookDeliveryView::from(sent))?)
}

/// `webhook deliveries`.
pub(crate) async fn deliveries<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookDeliveriesArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let of = &arguments.of;
    let opened = Opened::<A>::new(source, &of.common).await?;
    let filter = DeliveryFilter {
        state: arguments.state,
        event_type: arguments.event_type.clone(),
        status: arguments.status,
        from: arguments.from,
        to: arguments.to,
        ..DeliveryFilter::default()
    };
    let operator = opened.session.operator();
    let before = arguments.page.cursor;
    let limit = arguments.page.limit;
    let page = opened.webhooks.deliveries(operator, of.endpoint, &filter, before, limit).await;
    let page = opened.end(page, Some(of.endpoint)).await?;
    Ok(list(of.output.output, page, WebhookDeliveryView::from)?)
}

/// `webhook redeliver`.
pub(crate) async fn redeliver<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookRedeliverArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let of = &arguments.of;
    let opened = Opened::<A>::new(source, &of.common).await?;
    let operator = opened.session.operator();
    let sent = opened.webhooks.redeliver(operator, of.endpoint, arguments.delivery).await;
    let sent = opened.end(sent, Some(of.endpoint)).await?;
    Ok(show(of.output.output, &WebhookDeliveryView::from(sent))?)
}

/// `webhook recover`.
pub(crate) async fn recover<A: WebhookAccess>(
    source: &A::Source,
    arguments: &WebhookRecoverArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let of = &arguments.of;
    let opened = Opened::<A>::new(source, &of.common).await?;
    let mut command = Recover {
        since: arguments.since,
        until: arguments.until,
        include_missing: arguments.include_missing,
        after: arguments.cursor,
        dry_run: arguments.dry_run,
    };
    let recovered = loop {
        let recovered = opened.webhooks.recover(opened.session.operator(), of.endpoint, command).await;
        match recovered {
            Ok(Recovered { resent: 0, created: 0, next: Some(next), .. }) => command.after = Some(next),
            recovered => break recovered,
        }
    };
    let recovered = opened.end(recovered, Some(of.endpoint)).await?;
    note_remaining(recovered.more, recovered.next);
    Ok(show(of.output.output, &RecoveredView::from(recovered))?)
}
