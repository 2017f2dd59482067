//! Invalid bodies and values, independent of the route.

use super::case::Case;

/// JSON values that are not text, each with a name.
pub(crate) const NO_TEXT: [(&str, &str); 6] = [
    ("null", "null"),
    ("a number", "7"),
    ("a boolean", "true"),
    ("a list", r#"["a"]"#),
    ("an object", r#"{"a":"b"}"#),
    ("an exponent", "1e3"),
];

/// JSON values that are not ids, each with a name.
pub(crate) const NO_ID: [(&str, &str); 14] = [
    ("null", "null"),
    ("text", r#""1""#),
    ("a boolean", "true"),
    ("a list", "[1]"),
    ("an object", r#"{"id":1}"#),
    ("a fraction", "1.5"),
    ("a whole fraction", "1.0"),
    ("an exponent", "1e0"),
    ("zero", "0"),
    ("negative", "-1"),
    ("2^53", "9007199254740992"),
    ("2^63", "9223372036854775808"),
    ("2^64 and more", "18446744073709551617"),
    ("thirty digits", "100000000000000000000000000000"),
];

/// JSON values that are not amounts of money, each with a name. Zero is omitted, because some fields allow it.
pub(crate) const NO_MONEY: [(&str, &str); 13] = [
    ("null", "null"),
    ("text", r#""88.50""#),
    ("a boolean", "false"),
    ("a list", "[88.50]"),
    ("an object", r#"{"amount":88.50}"#),
    ("negative", "-88.50"),
    ("three decimals", "88.501"),
    ("three decimals, the last of them zero", "88.500"),
    ("an exponent", "885e-1"),
    ("a large exponent", "1e400"),
    ("a capital exponent", "1E2"),
    ("thirty digits", "100000000000000000000000000000"),
    ("2^63 cents and more", "92233720368547758.08"),
];

/// Bodies that are not a JSON object, each with a name.
pub(crate) const NO_OBJECT: [(&str, &str); 14] = [
    ("blank", "  "),
    ("null", "null"),
    ("a list", r#"[{"title":"a","price":1}]"#),
    ("a text", r#""title""#),
    ("a number", "1"),
    ("cut off in the middle", r#"{"title":"a","pri"#),
    ("cut off before its end", r#"{"title":"a","price":1"#),
    ("followed by another object", r#"{"title":"a","price":1} {}"#),
    ("with a comma too many", r#"{"title":"a","price":1,}"#),
    ("with single quotes", "{'title':'a','price':1}"),
    ("with a number that begins with zero", r#"{"title":"a","price":01}"#),
    ("with NaN", r#"{"title":"a","price":NaN}"#),
    ("with an unescaped control character", "{\"title\":\"a\u{1}\",\"price\":1}"),
    ("after a byte order mark", "\u{feff}{\"title\":\"a\",\"price\":1}"),
];

/// One case per value; in each case only `field` is invalid.
pub(crate) fn each(values: &[(&str, &str)], field: &str, make: impl Fn(&str, &str) -> Case) -> Vec<Case> {
    values.iter().map(|(name, value)| make(&format!("{field}: {name}"), value).invalid(&[field])).collect()
}
