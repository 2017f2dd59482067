//! Commands beside a service that waits: what they changed is noticed at once, not when it looks by itself.

use std::time::{Duration, Instant};

use handover_tests::client::Api;
use handover_tests::process::{Launch, eventually, fresh};
use handover_tests::server_rigs::migrated;
use handover_tests::servers::database::ServerKind;

use super::on_every_server;

on_every_server!(what_a_command_sends_again_goes_at_once);

async fn what_a_command_sends_again_goes_at_once(kind: ServerKind) {
    let database = migrated(kind).await;
    let (_folder, launch) = fresh();
    let launch = launch
        .set("HANDOVER_DATABASE__URL", &database.url())
        .set("HANDOVER_AUTH__JWT_SECRET", &"5f".repeat(32))
        .set("HANDOVER_GATEWAY__SECRET", &format!("whsec_{}", "5f".repeat(32)))
        // By itself it would look once a minute.
        .set("HANDOVER_OUTBOX__SCAN_INTERVAL", "60s");
    let running = launch.start().unwrap();
    let api = Api::of(&running);
    let product = api.list_product(1, "Desk lamp").await.unwrap().id("productId");
    assert!(api.place_order(2, product).await.unwrap().done());
    sent(&launch, 2).await;
    let begun = Instant::now();
    for _ in 0..3 {
        let (code, out, err) = launch.run(&["outbox", "redrive", "--status", "sent"]).unwrap();
        assert_eq!((code, out.contains('2')), (Some(0), true), "{out}{err}");
        sent(&launch, 2).await;
    }
    assert!(begun.elapsed() < BY_ITSELF, "it has looked by itself");
}

/// As long as it takes at least to notice three changes by looking once a minute.
const BY_ITSELF: Duration = Duration::from_secs(120);

/// Waits until so many events are sent.
async fn sent(launch: &Launch, events: usize) {
    eventually(BY_ITSELF, async || {
        let (_, out, err) = launch.run(&["outbox", "list", "--status", "sent", "--output", "json"])?;
        if out.matches("\"SENT\"").count() == events { Ok(()) } else { Err(format!("{out}{err}").into()) }
    })
    .await;
}
