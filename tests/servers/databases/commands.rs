//! Commands beside a service that waits: what they changed is noticed at once, not when it looks by itself.

use std::time::{Duration, Instant};

use handover_tests::client::Api;
use handover_tests::process::{Launch, eventually, fresh};
use handover_tests::server_rigs::migrated;
use handover_tests::servers::database::ServerKind;
use handover_tests::servers::{PASSWORD, free_port};

use super::on_every_server;

on_every_server!(
    what_a_command_sends_again_goes_at_once,
    refused_access_is_a_wrong_configuration_and_a_silent_server_an_outage,
);

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

async fn refused_access_is_a_wrong_configuration_and_a_silent_server_an_outage(kind: ServerKind) {
    let database = migrated(kind).await;
    let url = database.url();
    let by = |url: &str, arguments: &[&str]| {
        let (_folder, launch) = fresh();
        launch.set("HANDOVER_DATABASE__URL", url).run(arguments).unwrap()
    };
    let silent = free_port().unwrap();
    for (wrong, code, said) in [
        (url.replace(database.name(), "not_there"), 2, "refuses access: "),
        // PostgreSQL trusts who is on this machine, whatever the password.
        (
            match kind {
                ServerKind::MariaDb => url.replace(&format!(":{PASSWORD}@"), ":mistyped@"),
                ServerKind::Postgres => url.replace(database.name(), "not_there_either"),
            },
            2,
            "refuses access: ",
        ),
        (url.replace("//handover:", "//nobody:"), 2, "refuses access: "),
        (
            url.replace(&format!(":{}/", database.server().port()), &format!(":{silent}/")),
            3,
            "cannot be used: ",
        ),
    ] {
        for command in [&["migrate"][..], &["outbox", "list"]] {
            let (exit, out, err) = by(&wrong, command);
            assert_eq!((exit, out.as_str()), (Some(code), ""), "{command:?}: {err}");
            let explained =
                err.contains(said) && err.contains("do:  ") && !err.contains("returned from database");
            assert!(explained, "{command:?}: {err}");
        }
        let (exit, out, err) = by(&wrong, &["doctor", "--output", "json", "--listen", "127.0.0.1:0"]);
        assert!(out.contains(said), "{out}{err}");
        // Secrets that were not set are a wrong configuration, too.
        assert_eq!(exit == Some(2), code == 2, "{out}{err}");
    }
}
