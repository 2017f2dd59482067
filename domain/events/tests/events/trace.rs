//! Ids and parents of traces.

use handover_events::Trace;

#[test]
fn id_has_1_to_64_characters_that_every_broker_and_log_can_carry() {
    let longest = "x".repeat(64);
    for valid in ["6f1d0c2a", "A_b-9", "7f0c3a52-6b1e-4d0a-9c57-2f9d0f6f3f10", longest.as_str()] {
        assert!(Trace::is_valid_id(valid), "{valid}");
    }
    let too_long = "x".repeat(65);
    for invalid in ["", " ", "a b", "a\n", "a/b", "caf\u{e9}", too_long.as_str()] {
        assert!(!Trace::is_valid_id(invalid), "{invalid:?}");
    }
}

#[test]
fn traceparent_of_any_version_is_rewritten_in_version_00_and_an_invalid_one_is_none() {
    let fields = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let parsed = |text: &str| Trace::parse_parent(text);
    assert_eq!(parsed(&format!("00-{fields}")), Some(format!("00-{fields}")));
    assert_eq!(parsed(&format!("cc-{fields}-of-a-later-version")), Some(format!("00-{fields}")));
    for invalid in [
        String::new(),
        format!("ff-{fields}"),
        format!("00-{fields}-more"),
        format!("00-{fields}").to_uppercase(),
        format!("00-{}", fields.replace("b7ad6b7169203331", "0000000000000000")),
        format!("00-{}", &fields[..50]),
        "\u{e9}".repeat(40),
    ] {
        assert_eq!(parsed(&invalid), None, "{invalid}");
    }
}
