//! The OpenAPI document, held to what the routes do. Every answer of every test here is checked against it (`client.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::client::Answer;

/// Those that the document tells of.
const HEADERS: [&str; 7] = [
    "x-trace-id",
    "traceparent",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "idempotent-replayed",
    "www-authenticate",
];
const OF_EVERY_ANSWER: [&str; 2] = ["x-trace-id", "traceparent"];

pub(crate) static DOCUMENT: LazyLock<Document> = LazyLock::new(Document::read);

/// The document as this crate writes it.
pub(crate) fn written() -> Value {
    serde_json::to_value(marketplace_http::openapi()).unwrap()
}

/// One way to call an address.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) said: Value,
}

/// The document, taken apart.
pub(crate) struct Document {
    /// As it is, but that an answer can show no field which it does not name.
    closed: Value,
    pub(crate) operations: Vec<Operation>,
    validators: Mutex<BTreeMap<String, &'static Validator>>,
}

impl Document {
    fn read() -> Document {
        let document = written();
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, said) in item.as_object().unwrap() {
                operations.push(Operation {
                    id: said["operationId"].as_str().unwrap().to_owned(),
                    method: method.to_uppercase(),
                    path: path.clone(),
                    said: said.clone(),
                });
            }
        }
        let mut closed = document;
        close(&mut closed);
        Document { closed, operations, validators: Mutex::default() }
    }

    pub(crate) fn operation(&self, id: &str) -> &Operation {
        self.operations.iter().find(|operation| operation.id == id).unwrap()
    }

    /// The operation that answers there.
    fn called(&self, method: &str, target: &str) -> Option<&Operation> {
        let path = target.split('?').next().unwrap();
        let fits = |template: &str| {
            let (given, asked): (Vec<&str>, Vec<&str>) =
                (path.split('/').collect(), template.split('/').collect());
            given.len() == asked.len()
                && given.iter().zip(asked).all(|(given, asked)| *given == asked || asked.starts_with('{'))
        };
        let mut fitting: Vec<&Operation> = self
            .operations
            .iter()
            .filter(|operation| operation.method == method && fits(&operation.path))
            .collect();
        // As the router does: what is named goes before what is left open.
        fitting.sort_by_key(|operation| operation.path.matches('{').count());
        fitting.first().copied()
    }

    /// Holds an answer to the document: its status, its code, its headers, its body.
    #[track_caller]
    pub(crate) fn check(&self, method: &str, target: &str, answer: &Answer) {
        let Some(operation) = self.called(method, target) else {
            let (status, code) = (answer.status, answer.code.as_str());
            let is_refused = matches!((status, code), (404, "A0404") | (405, "A0400"));
            assert!(is_refused, "{method} {target} is not in the document: {}", answer.text);
            return;
        };
        let place = format!(
            "/paths/{}/{}/responses/{}",
            pointed(&operation.path),
            method.to_lowercase(),
            answer.status
        );
        let Some((place, said)) = followed(&self.closed, &place) else {
            panic!("{}: the document has no {} ({})", operation.id, answer.status, answer.text)
        };
        for name in HEADERS {
            let named = said["headers"].as_object().unwrap().keys().any(|key| key.eq_ignore_ascii_case(name));
            let given = answer.headers.contains_key(name);
            assert!(
                named || !given,
                "{}: {} with {name}, which is not in the document",
                operation.id,
                answer.status
            );
            assert!(
                given || !OF_EVERY_ANSWER.contains(&name),
                "{}: {} without {name}",
                operation.id,
                answer.status
            );
            if let (true, Some(value)) = (named, answer.headers.get(name)) {
                self.check_header(&said["headers"], name, value.to_str().unwrap());
            }
        }
        let body: Value = serde_json::from_str(&answer.text).unwrap();
        let schema = format!("{place}/content/{}/schema", pointed("application/json"));
        let flaws: Vec<String> = self
            .validator(&schema)
            .iter_errors(&body)
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        assert!(
            flaws.is_empty(),
            "{} ({}):\n{}\n{}",
            operation.id,
            answer.status,
            flaws.join("\n"),
            answer.text
        );
    }

    /// Holds a header to its schema. All of them are texts, but one, which is a number.
    fn check_header(&self, headers: &Value, name: &str, value: &str) {
        let headers = headers.as_object().unwrap();
        let (_, said) = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).unwrap();
        let place = said["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')).unwrap();
        let value = value.parse::<u64>().map_or_else(|_| json!(value), |number| json!(number));
        let validator = self.validator(&format!("{place}/schema"));
        assert!(validator.is_valid(&value), "{name}: {value} is not as the document says");
    }

    /// Of the schema at a place of the document.
    fn validator(&self, pointer: &str) -> &'static Validator {
        let mut validators = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(validator) = validators.get(pointer) {
            return validator;
        }
        let validator: &'static Validator = Box::leak(Box::new(validator_at(&self.closed, pointer)));
        validators.insert(pointer.to_owned(), validator);
        validator
    }
}

/// Of the schema at a place of a document.
pub(crate) fn validator_at(document: &Value, pointer: &str) -> Validator {
    let mut schema = document.pointer(pointer).unwrap().clone();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    // What it refers to.
    schema["components"] = json!({ "schemas": document["components"]["schemas"] });
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

/// The response at a place, and where it really is if that is another.
fn followed<'a>(document: &'a Value, place: &str) -> Option<(String, &'a Value)> {
    let said = document.pointer(place)?;
    match said["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
        Some(other) => Some((other.to_owned(), document.pointer(other)?)),
        None => Some((place.to_owned(), said)),
    }
}

/// As a part of a JSON pointer in a URI fragment.
fn pointed(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Lets no object have a field that is not named.
fn close(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("properties") && fields.get("type") == Some(&json!("object")) {
                fields.entry("additionalProperties").or_insert(json!(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Every `$ref` in a value.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The committed document. `HANDOVER_WRITE_GOLDEN=1 tests/run http document` writes it anew.
#[test]
fn the_document_is_the_golden_one() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/openapi.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&marketplace_http::openapi()).unwrap());
    if std::env::var_os("HANDOVER_WRITE_GOLDEN").is_some() {
        std::fs::write(golden, &text).unwrap();
    }
    let kept = std::fs::read_to_string(golden).unwrap_or_default();
    let differs = kept.lines().zip(text.lines()).find(|(kept, now)| kept != now);
    assert!(
        kept == text,
        "the document has changed, first at {differs:?}; if it should, set HANDOVER_WRITE_GOLDEN=1"
    );
}

#[test]
fn the_document_is_an_openapi_document_and_its_schemas_are_json_schemas() {
    let document = written();
    let official: Value = serde_json::from_str(include_str!("../schemas/openapi-3.1.json")).unwrap();
    let validator = jsonschema::options().should_validate_formats(true).build(&official).unwrap();
    let flaws: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect();
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(jsonschema::meta::is_valid(schema), "{name}");
        drop(validator_at(&document, &format!("/components/schemas/{name}")));
    }
    let mut flawed = document;
    flawed["paths"]["/api/v1/orders"]["post"]["responses"] = json!([]);
    assert!(!validator.is_valid(&flawed), "what is no document is noticed");
}

#[test]
fn every_reference_leads_somewhere_and_every_component_is_used() {
    let document = written();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in &found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    for kind in ["schemas", "parameters", "headers", "responses"] {
        for name in document["components"][kind].as_object().unwrap().keys() {
            assert!(found.contains(&format!("#/components/{kind}/{name}")), "nobody uses {kind}/{name}");
        }
    }
}

#[test]
fn every_operation_says_what_it_does_and_the_examples_fit() {
    let document = written();
    let ids: BTreeSet<&str> = DOCUMENT.operations.iter().map(|operation| operation.id.as_str()).collect();
    assert_eq!(ids.len(), DOCUMENT.operations.len(), "an id stands for one operation");
    let tags: BTreeSet<&str> =
        document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    for operation in &DOCUMENT.operations {
        let Operation { id, said, .. } = operation;
        assert!(said["summary"].as_str().is_some_and(|text| text.ends_with('.')), "{id} has no summary");
        assert!(tags.contains(said["tags"][0].as_str().unwrap()), "{id} has an unknown tag");
        for (status, answer) in said["responses"].as_object().unwrap() {
            let place = format!(
                "/paths/{}/{}/responses/{status}",
                pointed(&operation.path),
                operation.method.to_lowercase()
            );
            let (place, followed) = followed(&document, &place).unwrap();
            assert!(followed["description"].as_str().is_some_and(|text| !text.is_empty()), "{id} {status}");
            assert!(answer.get("$ref").is_some() || status != "500", "{id} {status} is said again");
            let examples = followed.pointer("/content/application~1json/examples");
            for (name, example) in examples.and_then(Value::as_object).into_iter().flatten() {
                let validator = validator_at(&document, &format!("{place}/content/application~1json/schema"));
                assert!(validator.is_valid(&example["value"]), "{id} {status} {name}");
            }
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let validator = validator_at(&document, &format!("/components/schemas/{name}"));
        let examples = schema["examples"].as_array().into_iter().flatten().chain(schema.get("example"));
        for example in examples {
            assert!(validator.is_valid(example), "{name}: {example}");
        }
    }
}

/// Of a generated client: `if (error.code === "A0401")` leaves one envelope.
#[test]
fn each_code_of_a_refusal_is_a_schema_of_its_own_and_has_a_name() {
    let document = written();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut names = BTreeMap::new();
    for (name, schema) in schemas.iter().filter(|(name, _)| name.starts_with("Refused_")) {
        let code = &schema["properties"]["code"];
        let (codes, named) = (code["enum"].as_array().unwrap(), code["x-enum-varnames"].as_array().unwrap());
        assert_eq!((codes.len(), named.len()), (1, 1), "{name}");
        let (code, named) = (codes[0].as_str().unwrap(), named[0].as_str().unwrap());
        assert_eq!(names.insert(code, named).unwrap_or(named), named, "one code has one name");
    }
    assert_eq!(
        (names["A0400"], names["A0401"], names["C0002"]),
        ("INVALID_INPUT", "REQUEST_IN_PROGRESS", "OUTCOME_UNKNOWN")
    );
    let conflict = document
        .pointer("/paths/~1api~1v1~1orders/post/responses/409/content/application~1json/schema")
        .unwrap();
    let mapping = conflict["discriminator"]["mapping"].as_object().unwrap();
    assert_eq!(conflict["discriminator"]["propertyName"], "code");
    assert_eq!(mapping.keys().collect::<Vec<_>>(), ["A0401", "A0409"]);
    assert_eq!(conflict["oneOf"].as_array().unwrap().len(), 2);
    for (code, place) in mapping {
        let schema = document.pointer(place.as_str().unwrap().strip_prefix('#').unwrap()).unwrap();
        assert_eq!(schema["properties"]["code"]["enum"], json!([code]), "{code}");
    }
}

/// Most validators judge it in binary floating point, and refuse every ninth amount below 1,000.00.
#[test]
fn no_number_has_to_be_a_multiple() {
    assert!(!written().to_string().contains("multipleOf"));
}

#[test]
fn every_operation_tells_of_a_head_that_is_too_large() {
    for operation in &DOCUMENT.operations {
        let said = &operation.said["responses"]["431"]["$ref"];
        assert_eq!(said, "#/components/responses/HeadTooLarge", "{}", operation.id);
        assert!(operation.said["responses"]["504"].is_object(), "{}", operation.id);
    }
}
