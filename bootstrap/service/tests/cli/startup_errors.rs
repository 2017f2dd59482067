//! Startup errors of `serve`: what is wrong, why, what to do, and the exit code.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;

use crate::program::{Log, World, eventually};

const SERVE: &str = "serve --listen 127.0.0.1:0";
const SECRET: &str = "0f4a9c1be27d83560f4a9c1be27d8356";
const SIGNING: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn unknown_key_error_names_key_source_and_nearest_key() {
    let world = World::new();
    world.write("handover.toml", "[consumer]\nprefech = 5\n");
    world.run(SERVE).refused(
        2,
        &[
            "error: unknown key consumer.prefech in the file handover.toml",
            "why: a mistyped key would be ignored silently",
            "do:  did you mean consumer.prefetch?",
        ],
    );
    World::new().set("HANDOVER_OUTBOX__BACTH", "5").run(SERVE).refused(
        2,
        &["unknown key HANDOVER_OUTBOX__BACTH in the environment", "did you mean HANDOVER_OUTBOX__BATCH?"],
    );
}

#[test]
fn pending_timeout_of_0_is_refused_from_every_source() {
    let world = World::new().set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0");
    let parts = [
        "error: order.timeout.pending-minutes in the environment variable HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES is 0",
        "why: with no time to pay, every order would be cancelled",
        "do:  set minutes from 0.00002 (a millisecond) to 43200 (30 days)",
    ];
    for command in [SERVE, "migrate"] {
        world.run(command).refused(2, &parts);
    }
    let world = World::new();
    world.write("handover.toml", "[order.timeout]\npending-minutes = 0\n");
    world.run(SERVE).refused(2, &["order.timeout.pending-minutes in the file handover.toml is 0"]);
    assert_eq!(world.files(), ["handover.toml"], "an invalid configuration must not create a file");
}

#[test]
fn all_configuration_errors_are_reported_at_once() {
    let world = World::new().set("HANDOVER_LOG__LEVEL", "inof").set("HANDOVER_OUTBOX__BATCH", "many");
    world.write("handover.toml", "[databse]\nurl = \"sqlite://shop.db\"\n[consumer]\nprefech = 5\n");
    let ran = world.run(SERVE);
    ran.refused(
        2,
        &[
            "error: unknown section databse in the file handover.toml",
            "do:  did you mean [database]?",
            "error: unknown key consumer.prefech in",
            "error: log.level in the environment variable HANDOVER_LOG__LEVEL is \"inof\"",
            "do:  write error, warn, info, debug or trace",
            "error: outbox.batch in the environment variable HANDOVER_OUTBOX__BATCH is \"many\"",
        ],
    );
    assert_eq!(ran.stderr.matches("error: ").count(), 4, "{}", ran.stderr);
    let checks = world.run("doctor --output json").json()["checks"].as_array().unwrap().len();
    assert_eq!(checks, 4);
}

#[test]
fn prefetch_of_0_is_refused() {
    World::new().set("HANDOVER_CONSUMER__PREFETCH", "0").run(SERVE).refused(
        2,
        &[
            "error: consumer.prefetch in the environment variable HANDOVER_CONSUMER__PREFETCH is 0",
            "why: AMQP takes 0 as unlimited",
            "do:  set a whole number from 1 to 65535",
        ],
    );
}

#[test]
fn unwritable_database_error_names_its_folder() {
    let world = World::new();
    world.write("notes.txt", "a file");
    for (database, remedy) in [
        ("missing/shop.db", "create the folder missing, or name another file with --database"),
        ("notes.txt/shop.db", "notes.txt is not a folder: name another file with --database"),
        ("/proc/shop.db", "/proc, or name another file with --database"),
    ] {
        world.run(&format!("{SERVE} --database sqlite://{database}")).refused(
            1,
            &[
                &format!("error: cannot create or lock the lock file {database}-lock: "),
                "why: the lock prevents a second process from serving the database",
                remedy,
            ],
        );
    }
    assert_eq!(world.files(), ["notes.txt"]);
}

#[test]
fn port_in_use_is_refused_before_any_file_is_created() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let world = World::new();
    world.run(&format!("serve --listen {address}")).refused(
        1,
        &[
            &format!("error: cannot listen on {address}: "),
            "why: the API is served on this address",
            "do:  stop the process that listens there, or choose another address with --listen",
        ],
    );
    assert!(world.files().is_empty(), "{:?}", world.files());
}

#[test]
fn port_of_another_handover_is_refused_with_its_name() {
    let first = World::new();
    let server = first.serve("");
    let second = World::new();
    second.run(&format!("serve --listen {}", server.address)).refused(
        1,
        &[
            &format!("error: cannot listen on {}: another handover listens there", server.address),
            "do:  stop the other process, or choose another address with --listen",
        ],
    );
    assert!(second.files().is_empty(), "{:?}", second.files());
}

#[test]
fn start_that_creates_the_database_says_so() {
    let world = World::new();
    let database = || {
        let mut server = world
            .command()
            .args(SERVE.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
        let line = lines.find(|line| line.starts_with("database: "));
        server.kill().and_then(|()| server.wait()).unwrap();
        line
    };
    assert_eq!(database().as_deref(), Some("database: handover.db (new: created by this start)"));
    assert_eq!(database().as_deref(), Some("database: handover.db"));
}

#[test]
fn database_file_without_relay_is_a_warning_at_the_start() {
    let world = World::new();
    let log = |roles: &str| {
        let (server, stderr) = world.serve_with_log(roles);
        let log = Log::read(stderr);
        eventually(|| !log.with("service: ready").is_empty());
        drop(server);
        log.into_lines().join("\n")
    };
    let api = log("--roles api");
    assert!(api.contains("roles.no-relay") && api.contains("add relay to --roles"), "{api}");
    let both = log("--roles api,relay");
    assert!(!both.contains("roles.no-relay"), "{both}");
}

#[test]
fn token_without_database_is_refused_and_creates_no_secret() {
    let world = World::new();
    world.run("token --user 1").refused(
        1,
        &["error: database not found: handover.db", "do:  start the service here once", "--database"],
    );
    assert!(world.files().is_empty(), "{:?}", world.files());
    assert_eq!(world.set("HANDOVER_AUTH__JWT_SECRET", SECRET).run("token --user 1").code, Some(0));
}

#[test]
fn address_of_metrics_in_use_is_refused_unless_the_process_has_an_api() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let world = World::new().set("HANDOVER_METRICS__LISTEN", &address.to_string());
    world.run("serve --roles relay,jobs").refused(
        1,
        &[
            &format!("error: cannot listen on {address}: "),
            "why: metrics.listen: a process without the role api serves /metrics, /healthz and /readyz on this address",
            "do:  stop the process that listens there, or set metrics.listen to another address",
        ],
    );
    assert!(world.files().is_empty(), "{:?}", world.files());
    world.serve("--roles api,relay");
}

#[test]
fn second_process_is_refused_with_id_of_first() {
    let world = World::new();
    let server = world.serve("");
    // The port of the first process is the usual one of the second: the error names the database, not the port.
    let same_port = format!("serve --listen {}", server.address);
    for command in [SERVE, same_port.as_str(), "migrate"] {
        world.run(command).refused(
            1,
            &[
                &format!("error: another process serves handover.db (process {})", server.id()),
                "why: a SQLite database is served by one process at a time",
                "do:  stop the other process",
            ],
        );
    }
}

#[test]
fn gateway_must_be_configured_outside_loopback() {
    let world =
        World::new().set("HANDOVER_AUTH__JWT_SECRET", SECRET).set("HANDOVER_GATEWAY__SECRET", SIGNING);
    world.run("serve --listen 0.0.0.0:0").refused(
        2,
        &[
            "gateway.url is not set, and 0.0.0.0:0 can be reached from other machines",
            "why: the default is a sandbox: it reports refunds as paid",
            "do:  set gateway.url to https:// and the gateway's address (or to \"sandbox:\"",
        ],
    );
    assert!(world.files().is_empty(), "{:?}", world.files());
    let doctor = world.run("doctor --output json --listen 0.0.0.0:0");
    assert!(doctor.stdout.contains("gateway.url is not set"), "{doctor:?}");
    // With an explicit gateway, the configuration is valid, and the start fails at the listen address.
    let chosen = world.set("HANDOVER_GATEWAY__URL", "sandbox:");
    chosen.run("serve --listen 192.0.2.1:1").refused(1, &["cannot listen on 192.0.2.1:1"]);
}

#[test]
fn gateway_over_plain_http_on_another_machine_is_refused() {
    World::new().set("HANDOVER_GATEWAY__URL", "http://pay.example").run(SERVE).refused(
        2,
        &[
            "error: gateway.url in the environment variable HANDOVER_GATEWAY__URL is \"http://pay.example\"",
            "why: plain http:// to another machine",
            "do:  write https://host/path of a payment gateway",
        ],
    );
}

#[test]
fn secrets_are_required_outside_loopback() {
    World::new().run("serve --listen 0.0.0.0:0").refused(
        2,
        &[
            "auth.jwt-secret is not set, and 0.0.0.0:0 can be reached from other machines",
            "set auth.jwt-secret, or listen on 127.0.0.1",
        ],
    );
}

#[test]
fn operators_listener_outside_loopback_requires_secrets() {
    let world = World::new().set("HANDOVER_HTTP__OPS_LISTEN", "0.0.0.0:0");
    world.run(SERVE).refused(
        2,
        &[
            "auth.jwt-secret is not set, and 0.0.0.0:0 can be reached from other machines",
            "set auth.jwt-secret, or listen on 127.0.0.1",
        ],
    );
    assert!(world.files().is_empty(), "{:?}", world.files());
}

#[test]
fn placeholder_secret_is_refused_outside_loopback() {
    for (jwt, signing, key) in [
        ("changemechangemechangemechangeme", SIGNING, "auth.jwt-secret"),
        ("0123456789abcdef0123456789abcdef", SIGNING, "auth.jwt-secret"),
        (SECRET, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "gateway.secret"),
    ] {
        let world =
            World::new().set("HANDOVER_AUTH__JWT_SECRET", jwt).set("HANDOVER_GATEWAY__SECRET", signing);
        let ran = world.run("serve --listen 0.0.0.0:0");
        ran.refused(
            2,
            &[
                &format!(
                    "error: {key} looks like a placeholder, and 0.0.0.0:0 can be reached from other machines"
                ),
                "why: anybody who guesses the secret can sign in as any user",
                &format!("do:  set {key} to random characters"),
            ],
        );
        assert!(!ran.stderr.contains(jwt) && !ran.stderr.contains(signing), "{ran:?}");
        assert!(world.files().is_empty(), "{:?}", world.files());
    }
}

#[test]
fn same_address_for_both_listeners_is_refused() {
    World::new().set("HANDOVER_HTTP__OPS_LISTEN", "127.0.0.1:9").run("serve --listen 127.0.0.1:9").refused(
        2,
        &["error: http.ops-listen in the environment variable", "it is the same address as http.listen"],
    );
}
