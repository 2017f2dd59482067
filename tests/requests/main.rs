//! Requests made at random from the OpenAPI document, by schemathesis: whatever comes, no answer is a fault, and each is
//! one that the document names, with the body that it describes.
//!
//! `tests/run` installs schemathesis, in the versions of `requirements.txt`, and says where it is (`HANDOVER_SCHEMATHESIS`).

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "real processes run on real time")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use handover_tests::process::fresh;

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance";

/// How long requests are made, in seconds.
fn seconds() -> u32 {
    if handover_tests::long() { 600 } else { 60 }
}

#[test]
fn no_request_is_answered_with_a_fault_or_otherwise_than_the_document_says() {
    let schemathesis = std::env::var_os("HANDOVER_SCHEMATHESIS")
        .expect("HANDOVER_SCHEMATHESIS names no program: run `tests/run -- --workspace --test requests`");
    let (folder, launch) = fresh();
    let mut server = launch.start().unwrap();
    let token = |user: &str, roles: &[&str]| {
        let mut arguments = vec!["token", "--user", user, "--ttl", "1h"];
        roles.iter().for_each(|role| arguments.extend(["--role", *role]));
        let (code, token, error) = launch.run(&arguments).unwrap();
        assert_eq!(code, Some(0), "{error}");
        token.trim().to_owned()
    };
    // Seller, buyer, operator.
    let tokens = [token("1", &["user"]), token("2", &["user"]), token("3", &["user", "operator", "pii"])];
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("requests/hooks.py");
    let output = Command::new(schemathesis)
        .current_dir(folder.path())
        .env("SCHEMATHESIS_HOOKS", hooks)
        .env("REQUEST_TOKENS", tokens.join(","))
        .env("REQUEST_GATEWAY_SECRET", launch.secret("gateway"))
        .args(["run", &format!("{}/openapi.json", server.base()), "--checks", CHECKS])
        .args(["--max-time", &seconds().to_string(), "--seed", "1", "--continue-on-failure", "--no-color"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{told}");
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.ended().unwrap(), None, "the program ended:\n{}", launch.log());
    assert!(!launch.log().contains("panicked"), "{}", launch.log());
    server.terminate(Duration::from_secs(10)).unwrap();
}
