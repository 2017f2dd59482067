//! Tests of the leak check: it finds planted canaries and nothing else.

use std::time::{Duration, SystemTime};

use handover_tests::canary::{Canaries, PERSONAL};

fn planted() -> Canaries {
    let mut canaries = Canaries::standard();
    canaries.secret("the secret", "0f4a9c1be27d83560f4a9c1be27d8356");
    canaries.password_of("the broker's password", "amqp://shop:a-password-of-some-length@mq:5672/shop");
    canaries
}

#[test]
fn canary_is_found_anywhere_in_text() {
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
fn database_may_contain_personal_data_but_no_secret() {
    let folder = tempfile::tempdir().expect("a temporary file");
    let file = folder.path().join("handover.db");
    std::fs::write(&file, [b"\xff\0", PERSONAL.as_bytes()].concat()).expect("a temporary file");
    assert_eq!(planted().in_database(&file), []);
    std::fs::write(&file, b"\xff\x000f4a9c1be27d83560f4a9c1be27d8356\xff").expect("a temporary file");
    assert_eq!(planted().in_database(&file).len(), 1);
    assert_eq!(planted().in_database(&file)[0].before, "\u{fffd}\0");
}

#[test]
fn server_files_are_searched_recursively_unless_they_are_old() {
    let folder = tempfile::tempdir().expect("a temporary file");
    let deep = folder.path().join("base/5");
    std::fs::create_dir_all(&deep).expect("a temporary file");
    std::fs::write(deep.join("1259"), b"\xff\x000f4a9c1be27d83560f4a9c1be27d8356\xff")
        .expect("a temporary file");
    let now = SystemTime::now();
    let hour = Duration::from_secs(3_600);
    assert_eq!(planted().in_server(folder.path(), now - hour).len(), 1);
    assert_eq!(planted().in_server(folder.path(), now + hour), []);
}

#[test]
fn short_text_is_not_a_canary() {
    let mut canaries = Canaries::default();
    canaries.secret("short", "handover");
    canaries.password_of("none", "postgres://handover@127.0.0.1:5432/shop");
    canaries.password_of("none", "sqlite://a.db");
    assert_eq!(canaries.in_text("the log", "handover"), []);
}
