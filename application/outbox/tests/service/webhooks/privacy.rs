//! Who may see unmasked payloads, and decide where they are sent.

use super::*;

fn unmasked() -> EndpointChange {
    EndpointChange { body_form: Some(BodyForm::Unmasked), ..to("https://a.example", &["book.lent"]) }
}

fn thin() -> EndpointChange {
    EndpointChange { body_form: Some(BodyForm::Thin), ..EndpointChange::default() }
}

fn url() -> EndpointChange {
    EndpointChange { url: Some("https://mine.example".to_owned()), ..EndpointChange::default() }
}

fn headers() -> EndpointChange {
    let headers = BTreeMap::from([("x-mine".to_owned(), "1".to_owned())]);
    EndpointChange { headers: Some(headers), ..EndpointChange::default() }
}

/// The field because of which the call was refused.
fn refused<T: std::fmt::Debug>(result: Result<T, WebhookError>) -> &'static str {
    match result.unwrap_err() {
        WebhookError::Invalid(error) => error.field,
        error @ (WebhookError::Operation(_) | WebhookError::TooManyEndpoints | WebhookError::Secret(_)) => {
            panic!("{error}")
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pending_unmasked_bodies_are_not_redirected_without_the_role_pii() {
    let world = World::new();
    let webhooks = &world.webhooks;
    let id = webhooks.create(&trusted(), None, unmasked()).await.unwrap().endpoint.id;
    world.event("event-1", 5).await;
    let update = async |change| webhooks.update(&operator(TENANT), id, change).await;
    let both = EndpointChange { url: url().url, ..thin() };
    assert_eq!(refused(update(both).await), "url");
    assert_eq!(refused(update(thin()).await), "full");
    // Whoever may see the payloads ends them for this endpoint. One is still pending.
    webhooks.update(&trusted(), id, thin()).await.unwrap();
    assert_eq!(refused(update(url()).await), "url");
    assert_eq!(refused(update(headers()).await), "headers");
    let described = EndpointChange { description: Some(Some("x".to_owned())), ..EndpointChange::default() };
    update(described).await.unwrap();
    assert_eq!(world.dispatch().await, 1);
    assert!(world.seen()[0].body.contains("Ada Lovelace"));
    update(url()).await.unwrap();
    update(headers()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stored_body_is_masked_in_the_form_in_which_it_was_written() {
    let world = World::new();
    let id = world.webhooks.create(&trusted(), None, unmasked()).await.unwrap().endpoint.id;
    world.event("event-1", 5).await;
    world.webhooks.update(&trusted(), id, thin()).await.unwrap();
    let written = world.only_delivery(id).await;
    assert_eq!(written.body, "***");
    let shown = world.webhooks.delivery(&operator(TENANT), id, written.id).await.unwrap();
    assert_eq!(shown.delivery.body, "***");
    let shown = world.webhooks.delivery(&trusted(), id, written.id).await.unwrap();
    assert!(shown.delivery.body.contains("Ada Lovelace"));
    // A body of the new form is shown, also if the endpoint gets unmasked payloads again.
    world.event("event-2", 6).await;
    world.webhooks.update(&trusted(), id, unmasked()).await.unwrap();
    assert!(world.deliveries(id).await[0].body.contains("\"copies\":3"));
}

#[tokio::test(start_paused = true)]
async fn dead_unmasked_bodies_are_not_sent_again_without_the_role_pii() {
    let world = World::new();
    let webhooks = &world.webhooks;
    let since = world.tx.now();
    let id = webhooks.create(&trusted(), None, unmasked()).await.unwrap().endpoint.id;
    world.event("event-1", 5).await;
    world.fail().await;
    webhooks.update(&trusted(), id, thin()).await.unwrap();
    world.event("event-2", 6).await;
    world.fail().await;
    let recover = async |operator: Operator, dry_run| {
        let until = Some(world.tx.now() + minutes(1));
        webhooks
            .recover(&operator, id, Recover { since, until, include_missing: false, after: None, dry_run })
            .await
    };
    let [thin, dead] = <[_; 2]>::try_from(world.deliveries(id).await).unwrap();
    assert_eq!(refused(webhooks.redeliver(&operator(TENANT), id, dead.id).await), "delivery");
    assert_eq!(refused(recover(operator(TENANT), true).await), "since");
    assert_eq!(refused(recover(operator(TENANT), false).await), "since");
    webhooks.redeliver(&operator(TENANT), id, thin.id).await.unwrap();
    assert_eq!(recover(trusted(), false).await.unwrap().resent, 1);
    for _ in 0..2 {
        world.fail().await;
    }
    // An endpoint with unmasked payloads has a URL that someone with the role chose.
    webhooks.update(&trusted(), id, unmasked()).await.unwrap();
    webhooks.redeliver(&operator(TENANT), id, dead.id).await.unwrap();
    assert_eq!(recover(operator(TENANT), true).await.unwrap().resent, 1, "the redelivery of the thin body");
}
