//! Startup and failed startups: messages for users and exit codes for scripts.

use handover_tests::client::Api;

use crate::{WITHIN, fresh};

#[tokio::test(flavor = "multi_thread")]
async fn second_process_on_same_database_is_refused() {
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let (code, _, stderr) = launch.run(&["serve", "--listen", "127.0.0.1:0"]).unwrap();
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains(&format!("another process serves handover.db (process {})", server.id())),
        "{stderr}"
    );
    assert!(stderr.contains("why:") && stderr.contains("do:"), "{stderr}");
    let (code, _, stderr) = launch.run(&["migrate"]).unwrap();
    assert_eq!(code, Some(1), "{stderr}");
    let api = Api::of(&server);
    assert!(api.list_product(1, "Still here").await.unwrap().done());
    server.terminate(WITHIN).unwrap();
    let (code, stdout, stderr) = launch.run(&["migrate"]).unwrap();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with("handover.db is at version "), "{stdout}");
}

#[tokio::test(flavor = "multi_thread")]
async fn token_command_prints_only_a_valid_token() {
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let (code, stdout, stderr) = launch.run(&["token", "--user", "7", "--role", "user"]).unwrap();
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let token = stdout.strip_suffix('\n').unwrap();
    assert_eq!(token.split('.').count(), 3, "{token}");
    let url = format!("{}/api/v1/orders?as=buyer", server.base());
    let client = reqwest::Client::new();
    let signed_in = client.get(&url).bearer_auth(token).send().await.unwrap();
    assert_eq!(signed_in.status(), 200);
    let invalid = client.get(&url).bearer_auth(token.to_uppercase()).send().await.unwrap();
    assert_eq!(invalid.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_startup_names_the_cause_and_sets_exit_code() {
    let (folder, launch) = fresh();
    let refused = |launch: &handover_tests::process::Launch, arguments: &[&str], code, text: &str| {
        let (found, stdout, stderr) = launch.run(arguments).unwrap();
        assert_eq!(found, Some(code), "{arguments:?}: {stderr}");
        assert!(stdout.is_empty() && stderr.contains(text), "{arguments:?}: {stderr}");
    };
    refused(&launch, &["fly"], 2, "fly");
    refused(&launch, &["token"], 2, "--user");
    refused(&launch, &["serve", "--config", "missing.toml"], 2, "missing.toml cannot be read");
    refused(&launch, &["serve", "--listen", "0.0.0.0:0"], 2, "auth.jwt-secret is not set");
    refused(&launch, &["serve", "--database", "mysql://root@db/shop"], 2, "auth.jwt-secret is not set");
    refused(
        &launch,
        &["serve", "--database", "oracle://root@db/shop"],
        2,
        "neither MySQL, MariaDB nor PostgreSQL",
    );
    refused(&launch, &["migrate", "--database", "postgres://root@127.0.0.1:1/shop"], 3, "Connection refused");
    refused(&launch.clone().set("HANDOVER_OUTBOX__BACTH", "1"), &["serve"], 2, "HANDOVER_OUTBOX__BATCH?");
    refused(&launch.clone().set("HANDOVER_CONSUMER__PREFETCH", "0"), &["serve"], 2, "consumer.prefetch");
    refused(
        &launch,
        &["serve", "--listen", "127.0.0.1:0", "--database", "sqlite://missing/a.db"],
        1,
        "missing/a.db-lock",
    );
    std::fs::write(
        folder.path().join("noise.db"),
        "no database at all, but long enough to be read as one".repeat(99),
    )
    .unwrap();
    refused(
        &launch,
        &["serve", "--listen", "127.0.0.1:0", "--database", "sqlite://noise.db"],
        1,
        "cannot use the database noise.db",
    );
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    refused(&launch, &["serve", "--listen", &address], 1, &format!("cannot listen on {address}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn help_shows_examples_and_variable_names() {
    let (_folder, launch) = fresh();
    for arguments in [&["--help"][..], &["serve", "--help"]] {
        let (code, stdout, _) = launch.run(arguments).unwrap();
        assert_eq!(code, Some(0));
        for part in ["Examples:", "HANDOVER_HTTP__LISTEN", "HANDOVER_CONFIG", "Exit codes:", "--roles"] {
            assert!(stdout.contains(part), "{part} is not in {stdout}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn database_and_secrets_are_readable_by_owner_only_and_secrets_are_not_logged() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, launch) = fresh();
    let server = launch.start().unwrap();
    for name in ["handover.db", "handover.db-wal", "handover.db-jwt-secret", "handover.db-gateway-secret"] {
        let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    server.terminate(WITHIN).unwrap();
    let log = launch.log();
    for name in ["handover.db-jwt-secret", "handover.db-gateway-secret"] {
        let secret = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(!log.contains(secret.trim()), "{name} is in the log");
    }
}
