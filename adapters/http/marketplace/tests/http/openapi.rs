//! Tests of the OpenAPI document. `client.rs` validates the response of every request of these tests against it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::client::ApiResponse;

/// Headers that the document describes.
const HEADERS: [&str; 8] = [
    "x-trace-id",
    "x-request-id",
    "traceparent",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "idempotent-replayed",
    "www-authenticate",
];
const COMMON_HEADERS: [&str; 3] = ["x-trace-id", "x-request-id", "traceparent"];

pub(crate) static DOCUMENT: LazyLock<Document> = LazyLock::new(Document::read);

/// The document that this crate generates.
pub(crate) fn generated_document() -> Value {
    serde_json::to_value(marketplace_http::openapi()).unwrap()
}

/// An operation: a method of a path.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) described: Value,
}

/// The parsed document.
pub(crate) struct Document {
    /// The document with `additionalProperties: false` in every object, so that undocumented fields are errors.
    closed: Value,
    pub(crate) operations: Vec<Operation>,
    validators: Mutex<BTreeMap<String, &'static Validator>>,
}

impl Document {
    fn read() -> Document {
        let document = generated_document();
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, described) in item.as_object().unwrap() {
                operations.push(Operation {
                    id: described["operationId"].as_str().unwrap().to_owned(),
                    method: method.to_uppercase(),
                    path: path.clone(),
                    described: described.clone(),
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

    /// The operation of a request target.
    fn find(&self, method: &str, target: &str) -> Option<&Operation> {
        let path = target.split('?').next().unwrap();
        let matches = |template: &str| {
            let actual: Vec<&str> = path.split('/').collect();
            let expected: Vec<&str> = template.split('/').collect();
            actual.len() == expected.len()
                && actual
                    .iter()
                    .zip(expected)
                    .all(|(actual, expected)| *actual == expected || expected.starts_with('{'))
        };
        let mut matching: Vec<&Operation> = self
            .operations
            .iter()
            .filter(|operation| operation.method == method && matches(&operation.path))
            .collect();
        // As in the router, literal segments take precedence over parameters.
        matching.sort_by_key(|operation| operation.path.matches('{').count());
        matching.first().copied()
    }

    /// Validates a response against the document: status, code, headers and body.
    #[track_caller]
    pub(crate) fn check(&self, method: &str, target: &str, response: &ApiResponse) {
        let Some(operation) = self.find(method, target) else {
            let (status, code) = (response.status, response.code.as_str());
            let is_refused = matches!((status, code), (404, "A0404") | (405, "A0400"));
            assert!(is_refused, "{method} {target} is not in the document: {}", response.text);
            return;
        };
        let pointer = format!(
            "/paths/{}/{}/responses/{}",
            escaped(&operation.path),
            method.to_lowercase(),
            response.status
        );
        let Some((pointer, described)) = resolve(&self.closed, &pointer) else {
            panic!("{}: the document has no response {} ({})", operation.id, response.status, response.text)
        };
        for name in HEADERS {
            let documented =
                described["headers"].as_object().unwrap().keys().any(|key| key.eq_ignore_ascii_case(name));
            let present = response.headers.contains_key(name);
            assert!(
                documented || !present,
                "{}: the document describes no header {name} of response {}",
                operation.id,
                response.status
            );
            assert!(
                present || !COMMON_HEADERS.contains(&name),
                "{}: response {} lacks the header {name}",
                operation.id,
                response.status
            );
            if let (true, Some(value)) = (documented, response.headers.get(name)) {
                self.check_header(&described["headers"], name, value.to_str().unwrap());
            }
        }
        let body: Value = serde_json::from_str(&response.text).unwrap();
        let schema = format!("{pointer}/content/{}/schema", escaped("application/json"));
        let errors: Vec<String> = self
            .validator(&schema)
            .iter_errors(&body)
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        assert!(
            errors.is_empty(),
            "{} ({}):\n{}\n{}",
            operation.id,
            response.status,
            errors.join("\n"),
            response.text
        );
    }

    /// Validates a header against its schema. All headers are strings except one, which is an integer.
    fn check_header(&self, headers: &Value, name: &str, value: &str) {
        let headers = headers.as_object().unwrap();
        let (_, described) = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).unwrap();
        let pointer = described["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')).unwrap();
        let value = value.parse::<u64>().map_or_else(|_| json!(value), |number| json!(number));
        let validator = self.validator(&format!("{pointer}/schema"));
        assert!(validator.is_valid(&value), "{name}: {value} does not match the schema");
    }

    /// Validator of the schema at a JSON pointer; cached.
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

/// Validator of the schema at a JSON pointer of a document.
pub(crate) fn validator_at(document: &Value, pointer: &str) -> Validator {
    let mut schema = document.pointer(pointer).unwrap().clone();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    // The targets of the schema's references.
    schema["components"] = json!({ "schemas": document["components"]["schemas"] });
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

/// The value at a JSON pointer, and the pointer to it; follows one `$ref`.
fn resolve<'a>(document: &'a Value, pointer: &str) -> Option<(String, &'a Value)> {
    let value = document.pointer(pointer)?;
    match value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
        Some(target) => Some((target.to_owned(), document.pointer(target)?)),
        None => Some((pointer.to_owned(), value)),
    }
}

/// Escapes a segment of a JSON pointer (RFC 6901 §3).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Sets `additionalProperties: false` in every object schema.
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

/// `HANDOVER_WRITE_GOLDEN=1 tests/run http openapi` updates the golden file.
#[test]
fn openapi_document_equals_the_golden_file() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/openapi.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&marketplace_http::openapi()).unwrap());
    if std::env::var_os("HANDOVER_WRITE_GOLDEN").is_some() {
        std::fs::write(golden, &text).unwrap();
    }
    let expected = std::fs::read_to_string(golden).unwrap_or_default();
    let difference = expected.lines().zip(text.lines()).find(|(expected, actual)| expected != actual);
    assert!(
        expected == text,
        "the document differs from the golden file, first at {difference:?}; if intended, set HANDOVER_WRITE_GOLDEN=1"
    );
}

#[test]
fn openapi_document_and_its_schemas_are_valid() {
    let document = generated_document();
    let official: Value = serde_json::from_str(include_str!("../schemas/openapi-3.1.json")).unwrap();
    let validator = jsonschema::options().should_validate_formats(true).build(&official).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(jsonschema::meta::is_valid(schema), "{name}");
        drop(validator_at(&document, &format!("/components/schemas/{name}")));
    }
    let mut invalid = document;
    invalid["paths"]["/api/v1/orders"]["post"]["responses"] = json!([]);
    assert!(!validator.is_valid(&invalid), "the validator detects an invalid document");
}

#[test]
fn openapi_references_resolve_and_every_component_is_used() {
    let document = generated_document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in &found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} does not resolve");
    }
    for kind in ["schemas", "parameters", "headers", "responses"] {
        for name in document["components"][kind].as_object().unwrap().keys() {
            assert!(found.contains(&format!("#/components/{kind}/{name}")), "{kind}/{name} is not used");
        }
    }
}

#[test]
fn openapi_operations_are_described_and_examples_are_valid() {
    let document = generated_document();
    let ids: BTreeSet<&str> = DOCUMENT.operations.iter().map(|operation| operation.id.as_str()).collect();
    assert_eq!(ids.len(), DOCUMENT.operations.len(), "operation ids are unique");
    let tags: BTreeSet<&str> =
        document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    for operation in &DOCUMENT.operations {
        let Operation { id, described, .. } = operation;
        assert!(described["summary"].as_str().is_some_and(|text| text.ends_with('.')), "{id} has no summary");
        assert!(tags.contains(described["tags"][0].as_str().unwrap()), "{id} has an unknown tag");
        for (status, response) in described["responses"].as_object().unwrap() {
            let pointer = format!(
                "/paths/{}/{}/responses/{status}",
                escaped(&operation.path),
                operation.method.to_lowercase()
            );
            let (pointer, resolved) = resolve(&document, &pointer).unwrap();
            assert!(resolved["description"].as_str().is_some_and(|text| !text.is_empty()), "{id} {status}");
            assert!(response.get("$ref").is_some() || status != "500", "{id} {status} is not a reference");
            let examples = resolved.pointer("/content/application~1json/examples");
            for (name, example) in examples.and_then(Value::as_object).into_iter().flatten() {
                let validator =
                    validator_at(&document, &format!("{pointer}/content/application~1json/schema"));
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

/// In a generated client, `if (error.code === "A0401")` narrows the type to one envelope.
#[test]
fn openapi_error_codes_have_one_schema_and_one_name_each() {
    let document = generated_document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut names = BTreeMap::new();
    for (name, schema) in schemas.iter().filter(|(name, _)| name.starts_with("Refused_")) {
        let code = &schema["properties"]["code"];
        let codes = code["enum"].as_array().unwrap();
        let code_names = code["x-enum-varnames"].as_array().unwrap();
        assert_eq!((codes.len(), code_names.len()), (1, 1), "{name}");
        let code = codes[0].as_str().unwrap();
        let code_name = code_names[0].as_str().unwrap();
        assert_eq!(
            names.insert(code, code_name).unwrap_or(code_name),
            code_name,
            "a code has the same name in all schemas"
        );
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
    for (code, reference) in mapping {
        let schema = document.pointer(reference.as_str().unwrap().strip_prefix('#').unwrap()).unwrap();
        assert_eq!(schema["properties"]["code"]["enum"], json!([code]), "{code}");
    }
}

/// Most validators evaluate `multipleOf` in binary floating point and reject every ninth amount below 1,000.00.
#[test]
fn openapi_document_uses_no_multiple_of() {
    assert!(!generated_document().to_string().contains("multipleOf"));
}

#[test]
fn openapi_operations_have_responses_431_and_504() {
    for operation in &DOCUMENT.operations {
        let reference = &operation.described["responses"]["431"]["$ref"];
        assert_eq!(reference, "#/components/responses/HeadTooLarge", "{}", operation.id);
        assert!(operation.described["responses"]["504"].is_object(), "{}", operation.id);
    }
}
