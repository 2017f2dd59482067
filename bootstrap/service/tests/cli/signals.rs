//! Signals to `serve`: stop, reload, ignored ones; and the rotation of secrets by a reload.

use crate::program::{Log, Server, World, eventually};

const RELOADED: &str = "log level, JWKS file and secrets were read again";
const REFUSED: &str = "SIGHUP received; nothing was changed";
const NEW_JWT: &str = "5b0e6fd2c7a94183be5d20f3a1c8e796";
const NEW_GATEWAY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A serving process and its log.
fn serve(world: &World) -> (Server, Log) {
    let (server, log) = world.serve_with_log("");
    (server, Log::read(log))
}

/// Sends SIGHUP and waits for the next line with this text.
fn reload(server: &Server, log: &Log, text: &str) -> String {
    let before = log.with(text).len();
    server.signal("HUP");
    eventually(|| log.with(text).len() > before);
    log.with(text).remove(before)
}

/// Whether the token of user 1 is accepted.
fn accepts(server: &Server, token: &str) -> bool {
    match server.status(token, "GET /api/v1/products") {
        200 => true,
        401 => false,
        other => panic!("unexpected status {other}"),
    }
}

/// Whether a callback with this signature is accepted. The payment does not exist.
fn accepts_callback(server: &Server, secret: &str) -> bool {
    let body = r#"{"refundId":1,"result":"SUCCESS"}"#;
    server.status_of_signed(secret, "POST /api/v1/refunds/callback", body) != 401
}

#[test]
fn user_signals_are_ignored_with_a_line_and_three_signals_stop_gracefully() {
    let world = World::new();
    for stop in ["TERM", "INT", "QUIT"] {
        let (mut server, log) = serve(&world);
        for name in ["USR1", "USR2"] {
            server.signal(name);
            eventually(|| !log.with(&format!("service: SIG{name} received; ignored")).is_empty());
        }
        assert!(server.text("GET /healthz").contains("\"up\""));
        server.signal(stop);
        assert_eq!(server.ended(), Some(0), "SIG{stop}");
        let lines = log.into_lines();
        assert!(
            lines.iter().any(|line| line.contains(&format!("SIG{stop} received; stopping"))),
            "{lines:#?}"
        );
        assert!(lines.last().unwrap().contains("service: stopped"), "{lines:#?}");
    }
}

#[test]
fn sighup_reads_log_level_again_and_keeps_everything_if_the_file_is_invalid() {
    let world = World::new();
    world.write("handover.toml", "[log]\nlevel = \"info\"\n");
    let (server, log) = serve(&world);
    world.write("handover.toml", "[log]\nlevel = \"trace\"\n[auth]\njwt-secret = \"short\"\n");
    let line = reload(&server, &log, REFUSED);
    assert!(line.contains("auth.jwt-secret in the file handover.toml is too short"), "{line}");
    assert!(line.contains("ERROR") && log.with("TRACE").is_empty(), "{line}");
    world.write("handover.toml", "[log]\nlevel = \"trace\"\n");
    let line = reload(&server, &log, RELOADED);
    assert!(line.contains(r#""changed":"log.level""#), "{line}");
    eventually(|| {
        server.text("GET /readyz");
        !log.with("\"level\":\"TRACE\"").is_empty()
    });
    world.write("handover.toml", "[log\n");
    assert!(reload(&server, &log, REFUSED).contains("is not valid TOML"));
    world.write("handover.toml", "[log]\nlevel = \"warn\"\n");
    reload(&server, &log, RELOADED);
    world.write("handover.toml", "");
    assert!(reload(&server, &log, RELOADED).contains(r#""changed":"log.level""#));
}

#[test]
fn process_without_the_api_reloads_without_a_secret_of_tokens() {
    let world = World::new().set("HANDOVER_METRICS__LISTEN", "127.0.0.1:0");
    let file = |level| {
        format!(
            "[log]\nlevel = \"{level}\"\n[gateway]\nurl = \"https://gateway.example\"\nsecret = \"{NEW_GATEWAY}\"\n"
        )
    };
    world.write("handover.toml", file("info"));
    let (server, log) = world.serve_with_log("--roles relay,consumers,jobs");
    let log = Log::read(log);
    assert!(!world.path("handover.db-jwt-secret").exists());
    world.write("handover.toml", file("warn"));
    server.signal("HUP");
    eventually(|| log.with(RELOADED).len() + log.with(REFUSED).len() == 1);
    assert_eq!(log.with(REFUSED), [""; 0]);
}

#[test]
fn secrets_rotate_by_sighup_and_previous_ones_are_accepted_while_configured() {
    let world = World::new();
    let (server, log) = serve(&world);
    let old = |name: &str| std::fs::read_to_string(world.path(name)).unwrap().trim().to_owned();
    let [old_jwt, old_gateway] = ["handover.db-jwt-secret", "handover.db-gateway-secret"].map(old);
    let old_token = world.token("--user 1");
    assert!(accepts(&server, &old_token) && accepts_callback(&server, &old_gateway));
    assert!(!accepts_callback(&server, NEW_GATEWAY));
    let new = format!("[auth]\njwt-secret = \"{NEW_JWT}\"\n#\n[gateway]\nsecret = \"{NEW_GATEWAY}\"\n");
    let both = format!(
        "{}previous-secret = \"{old_gateway}\"\n",
        new.replace('#', &format!("previous-jwt-secret = \"{old_jwt}\""))
    );
    world.write("handover.toml", &both);
    let line = reload(&server, &log, RELOADED);
    for key in ["auth.jwt-secret", "auth.previous-jwt-secret", "gateway.secret", "gateway.previous-secret"] {
        assert!(line.contains(key), "{key}: {line}");
    }
    let new_token = world.token("--user 1");
    assert!(accepts(&server, &old_token) && accepts(&server, &new_token));
    assert!(accepts_callback(&server, &old_gateway) && accepts_callback(&server, NEW_GATEWAY));
    let shown = world.run("config show");
    let doctor = world.run("doctor --listen 127.0.0.1:0");
    for text in [&shown.stdout, &doctor.stdout, &doctor.stderr] {
        assert!(!text.contains(&old_jwt) && !text.contains(&old_gateway), "{text}");
    }
    world.write("handover.toml", &new);
    reload(&server, &log, RELOADED);
    assert!(!accepts(&server, &old_token) && accepts(&server, &new_token));
    assert!(!accepts_callback(&server, &old_gateway) && accepts_callback(&server, NEW_GATEWAY));
    world.write("handover.toml", "");
    reload(&server, &log, RELOADED);
    assert!(accepts(&server, &old_token) && !accepts(&server, &new_token), "the files are read again");
    std::fs::remove_file(world.path("handover.db-jwt-secret")).unwrap();
    assert!(reload(&server, &log, REFUSED).contains("handover.db-jwt-secret"));
    assert!(accepts(&server, &old_token));
    for line in [&log.with(&old_jwt)[..], &log.with(&old_gateway), &log.with(NEW_JWT), &log.with(NEW_GATEWAY)]
    {
        assert!(line.is_empty(), "the log contains a secret");
    }
}
