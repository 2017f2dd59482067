use toml::{Table, Value};

use super::load_file;
use handover_runtime::config::{read_value, show};

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

#[test]
fn values_are_parsed_like_toml_without_quotes() {
    let list = |items: &[Value]| Value::Array(items.to_vec());
    let table = |entries: &[(&str, Value)]| {
        Value::Table(entries.iter().cloned().map(|(name, value)| (name.to_owned(), value)).collect::<Table>())
    };
    let [one, two] = [1, 2].map(Value::Integer);
    for (written, value) in [
        ("true", Value::Boolean(true)),
        (" false ", Value::Boolean(false)),
        ("truth", text("truth")),
        ("15", Value::Integer(15)),
        (" -2 ", Value::Integer(-2)),
        ("0.05", Value::Float(0.05)),
        (".5", Value::Float(0.5)),
        ("1e3", text("1e3")),
        ("inf", text("inf")),
        ("200ms", text("200ms")),
        (" 5s ", text("5s")),
        ("", text("")),
        ("\"15\"", text("15")),
        (r#""a \"b\" \u00e9\\""#, text("a \"b\" é\\")),
        // An escape after a multi-byte character.
        (r#""é \"b\"""#, text("é \"b\"")),
        ("10.0.0.0/8", text("10.0.0.0/8")),
        ("[]", list(&[])),
        ("[ ]", list(&[])),
        ("[1, 2]", list(&[one.clone(), two.clone()])),
        ("[1, 2, ]", list(&[one.clone(), two.clone()])),
        ("[5s, \"a, b\"]", list(&[text("5s"), text("a, b")])),
        ("{}", table(&[])),
        ("{a=1,b-c = two}", table(&[("a", one.clone()), ("b-c", text("two"))])),
        (
            r#"{"POST /api/v1/orders" = {capacity = 2}}"#,
            table(&[("POST /api/v1/orders", table(&[("capacity", two.clone())]))]),
        ),
        ("[[1], {a = [2]}]", list(&[list(&[one]), table(&[("a", list(&[two]))])])),
    ] {
        assert_eq!(read_value(written), value, "{written}");
    }
}

#[test]
fn text_that_is_not_a_value_is_kept_unchanged() {
    let deep = "[".repeat(100_000);
    for written in [
        "1, 2",
        "[1",
        "1]",
        "[1] 2",
        "{a}",
        "{= 1}",
        "{a b = 1}",
        "{a = }",
        "[1, ,2]",
        "{a = 1, a = 2}",
        "\"open",
        r#""\q""#,
        "\"a\" b",
        " a, b",
        &deep,
    ] {
        assert_eq!(read_value(written), text(written));
    }
}

#[test]
fn values_are_shown_as_written_in_the_file() {
    for (written, shown) in [
        ("5s", "\"5s\""),
        ("5.0", "5"),
        ("0.25", "0.25"),
        ("true", "true"),
        ("{b = [1, x], a = {}}", "{a = {}, b = [1, \"x\"]}"),
    ] {
        assert_eq!(show(&read_value(written)), shown);
    }
    let refused = load_file("[outbox]\nbatch = 2026-11-24\n").unwrap_err().to_string();
    assert!(
        refused.starts_with("outbox.batch in the file ") && refused.ends_with(" is 2026-11-24"),
        "{refused}"
    );
}
