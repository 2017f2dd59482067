//! Libraries of other authors verify the requests that a receiver got.
//!
//! `tests/run` installs the libraries in the versions of `verifiers/requirements.txt` and `verifiers/package-lock.json`, and
//! sets `HANDOVER_WEBHOOK_VERIFIERS` to their folder: `python/` is a virtual environment, `node/` has the packages of npm.

use std::path::{Path, PathBuf};
use std::process::Command;

use chrono::{TimeDelta, Utc};
use handover_outbox::ports::WebhookTransport;
use serde_json::{Value, json};

use crate::receiver::{Answer, Receiver, endpoint, request, transport};

/// A received request: during a rotation from the second secret to the first; the third one has expired.
struct Rotation {
    request: Value,
    secrets: [String; 3],
    public_keys: [String; 3],
}

async fn rotation() -> Rotation {
    let receiver = Receiver::start(Answer::status(200)).await;
    let transport = transport();
    let (mut endpoint, current) = endpoint(&transport, &receiver.url());
    endpoint.signs_asymmetrically = true;
    let hour = TimeDelta::hours(1);
    let [valid, expired] = [Utc::now() + hour, Utc::now() - hour].map(|until| {
        let mut retired = transport.new_secret(endpoint.id).unwrap();
        retired.stored.valid_until = Some(until);
        endpoint.secrets.push(retired.stored);
        retired.shown
    });
    transport.send(&request(&endpoint)).await.unwrap();
    let [received] = receiver.received().try_into().ok().unwrap();
    let headers = received.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    let headers: serde_json::Map<_, _> =
        headers.map(|(name, value)| (name.to_owned(), value.into())).collect();
    let body = std::str::from_utf8(&received.body).unwrap();
    Rotation {
        request: json!({"headers": headers, "body": body}),
        secrets: [current, valid, expired],
        public_keys: [0, 1, 2].map(|index: usize| endpoint.secrets[index].public_key.clone()),
    }
}

/// The requests, each with a key and whether the key verifies it.
fn cases(rotation: &Rotation) -> Vec<Value> {
    let mut cases = Vec::new();
    let mut add = |name: &str, request: &Value, key: &String, is_valid: bool| {
        cases.push(json!({"name": name, "request": request, "key": key, "isValid": is_valid}));
    };
    let request = &rotation.request;
    let changed = |pointer: &str, from: &str, to: &str| {
        let mut request = request.clone();
        let text = request.pointer_mut(pointer).unwrap();
        *text = text.as_str().unwrap().replacen(from, to, 1).into();
        assert_ne!(request, rotation.request, "{pointer}");
        request
    };
    for keys in [&rotation.secrets, &rotation.public_keys] {
        add("current key", request, &keys[0], true);
        add("previous key", request, &keys[1], true);
        add("expired key", request, &keys[2], false);
        add("changed body", &changed("/body", "order.paid", "order.pbid"), &keys[0], false);
        add("body with another space", &changed("/body", ":", ": "), &keys[1], false);
        add("changed id", &changed("/headers/webhook-id", "0192f0c1", "0192f0c2"), &keys[0], false);
        add("later timestamp", &changed("/headers/webhook-timestamp", "", "1"), &keys[0], false);
        add("other version", &changed("/headers/webhook-signature", "v1", "v2"), &keys[1], true);
    }
    cases
}

/// The number of checks that a program made.
fn checks(program: &Path, arguments: &[&Path]) -> usize {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn libraries_of_other_authors_verify_every_signature() {
    let installed = std::env::var_os("HANDOVER_WEBHOOK_VERIFIERS").map(PathBuf::from);
    let installed = installed.expect("HANDOVER_WEBHOOK_VERIFIERS is not set: run `tests/run webhooks`");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/webhooks/verifiers");
    let cases = cases(&rotation().await);
    let file = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&file, &cases).unwrap();

    // Two libraries verify `v1`, one verifies `v1a`.
    let expected = cases.len() / 2 * 3;
    let python = installed.join("python/bin/python");
    assert_eq!(checks(&python, &[&scripts.join("verify.py"), file.path()]), expected);
    let packages = installed.join("node");
    let node = [&scripts.join("verify.mjs"), packages.as_path(), file.path()];
    assert_eq!(checks(Path::new("node"), &node), expected);
}
