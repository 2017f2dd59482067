//! Commands: a running service reacts immediately to what a command changed, not only at its next poll. A command
//! without access to the database fails with an explanation.

use std::time::{Duration, Instant};

use handover_tests::client::Api;
use handover_tests::process::{Launch, eventually, fresh};
use handover_tests::server_rigs::migrated;
use handover_tests::servers::database::ServerKind;
use handover_tests::servers::{PASSWORD, free_port};

use super::on_every_server;

on_every_server!(
    redriven_events_are_published_immediately,
    refused_access_is_configuration_error_and_closed_port_is_outage,
);

async fn redriven_events_are_published_immediately(kind: ServerKind) {
    let database = migrated(kind).await;
    let (_folder, launch) = fresh();
    let launch = launch
        .set("HANDOVER_DATABASE__URL", &database.url())
        .set("HANDOVER_AUTH__JWT_SECRET", &"5f".repeat(32))
        .set("HANDOVER_GATEWAY__SECRET", &format!("whsec_{}", "5f".repeat(32)))
        // The service polls only once a minute.
        .set("HANDOVER_OUTBOX__SCAN_INTERVAL", "60s");
    let running = launch.start().unwrap();
    let api = Api::of(&running);
    let product = api.list_product(1, "Desk lamp").await.unwrap().id("productId");
    assert!(api.place_order(2, product).await.unwrap().done());
    expect_sent(&launch, 2).await;
    let begun = Instant::now();
    for _ in 0..3 {
        let (code, out, err) = launch.run(&["outbox", "redrive", "--status", "sent"]).unwrap();
        assert_eq!((code, out.contains('2')), (Some(0), true), "{out}{err}");
        expect_sent(&launch, 2).await;
    }
    assert!(begun.elapsed() < POLLING_TIME, "the service reacted only when it polled");
}

/// Minimum time to detect three changes by polling once a minute.
const POLLING_TIME: Duration = Duration::from_secs(120);

/// Waits until this many events are sent.
async fn expect_sent(launch: &Launch, events: usize) {
    eventually(POLLING_TIME, async || {
        let (_, out, err) = launch.run(&["outbox", "list", "--status", "sent", "--output", "json"])?;
        if out.matches("\"SENT\"").count() == events { Ok(()) } else { Err(format!("{out}{err}").into()) }
    })
    .await;
}

async fn refused_access_is_configuration_error_and_closed_port_is_outage(kind: ServerKind) {
    let database = migrated(kind).await;
    let url = database.url();
    let by = |url: &str, arguments: &[&str]| {
        let (_folder, launch) = fresh();
        launch.set("HANDOVER_DATABASE__URL", url).run(arguments).unwrap()
    };
    let closed_port = free_port().unwrap();
    for (wrong, code, text) in [
        (url.replace(database.name(), "not_there"), 2, "refuses access: "),
        // PostgreSQL trusts local connections whatever the password is.
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
            url.replace(&format!(":{}/", database.server().port()), &format!(":{closed_port}/")),
            3,
            "cannot use the database ",
        ),
    ] {
        for command in [&["migrate"][..], &["outbox", "list"]] {
            let (exit, out, err) = by(&wrong, command);
            assert_eq!((exit, out.as_str()), (Some(code), ""), "{command:?}: {err}");
            let explained =
                err.contains(text) && err.contains("do:  ") && !err.contains("returned from database");
            assert!(explained, "{command:?}: {err}");
        }
        let (exit, out, err) = by(&wrong, &["doctor", "--output", "json", "--listen", "127.0.0.1:0"]);
        assert!(out.contains(text), "{out}{err}");
        // Like refused access, the missing secrets of this command are a configuration error.
        assert_eq!(exit == Some(2), code == 2, "{out}{err}");
    }
}
