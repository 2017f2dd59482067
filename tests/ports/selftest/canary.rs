//! The search for what must not get out, tested: it finds what is planted, and nothing else.

use std::time::{Duration, SystemTime};

use handover_tests::canary::{Canaries, PERSONAL};

fn planted() -> Canaries {
    let mut canaries = Canaries::standard();
    canaries.secret("the secret", "0f4a9c1be27d83560f4a9c1be27d8356");
    canaries.password_of("the broker's password", "amqp://shop:a-password-of-some-length@mq:5672/shop");
    canaries
}

#[test]
fn each_canary_is_found_wherever_it_stands() {
    let canaries = planted();
    for (what, text) in [
        ("the secret", "{\"error\":\"0f4a9c1be27d83560f4a9c1be27d8356\"}"),
        ("the broker's password", "cannot reach amqp://shop:a-password-of-some-length@mq:5672"),
        ("a bearer token", "authorization: Bearer eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJzdWIi"),
        ("personal data", "shipped to Canary-Lane-17-Springfield"),
        ("personal data", r#"payload={"orderId":1,"buyerId":8}"#),
        ("personal data", r#"{"payload":"{\"buyerId\":8}"}"#),
    ] {
        let leaks = canaries.in_text("the log", &format!("two lines\n{text}\n"));
        assert_eq!(leaks.first().map(|leak| leak.what.as_str()), Some(what), "{text}: {leaks:?}");
        assert!(leaks[0].to_string().contains("is in the log, after"), "{}", leaks[0]);
    }
    assert_eq!(canaries.in_text("the log", r#"{"orderId":1,"traceId":"t-1","user":"shop"}"#), []);
}

#[test]
fn a_database_may_hold_people_but_no_secret() {
    let folder = tempfile::tempdir().expect("a file of the test's own");
    let file = folder.path().join("handover.db");
    std::fs::write(&file, [b"\xff\0", PERSONAL.as_bytes()].concat()).expect("a file of the test's own");
    assert_eq!(planted().in_database(&file), []);
    std::fs::write(&file, b"\xff\x000f4a9c1be27d83560f4a9c1be27d8356\xff").expect("a file of the test's own");
    assert_eq!(planted().in_database(&file).len(), 1);
    assert_eq!(planted().in_database(&file)[0].before, "\u{fffd}\0");
}

#[test]
fn the_files_of_a_server_are_searched_however_deep_they_lie_unless_they_are_old() {
    let folder = tempfile::tempdir().expect("a file of the test's own");
    let deep = folder.path().join("base/5");
    std::fs::create_dir_all(&deep).expect("a file of the test's own");
    std::fs::write(deep.join("1259"), b"\xff\x000f4a9c1be27d83560f4a9c1be27d8356\xff")
        .expect("a file of the test's own");
    let (now, hour) = (SystemTime::now(), Duration::from_secs(3_600));
    assert_eq!(planted().in_server(folder.path(), now - hour).len(), 1);
    assert_eq!(planted().in_server(folder.path(), now + hour), []);
}

#[test]
fn what_could_be_there_by_chance_is_no_canary() {
    let mut canaries = Canaries::default();
    canaries.secret("short", "handover");
    canaries.password_of("none", "postgres://handover@127.0.0.1:5432/shop");
    canaries.password_of("none", "sqlite://a.db");
    assert_eq!(canaries.in_text("the log", "handover"), []);
}
