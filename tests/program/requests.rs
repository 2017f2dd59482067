//! Random requests generated from the OpenAPI document by schemathesis: no response is a server error, and every
//! response matches the document in status, headers and body.
//!
//! `tests/run` installs schemathesis in the versions of `requirements.txt` and sets `HANDOVER_SCHEMATHESIS` to its
//! path. In CI it generates the same requests each time: about ten per operation, and some sequences of operations.
//! With HANDOVER_LONG=1 it generates different requests for ten minutes.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use handover_tests::long;
use handover_tests::process::fresh;

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance";

/// Options for the generated requests. With a number of examples, the requests depend only on the seed; with a time
/// limit, they also depend on the speed of the machine.
fn requests() -> [String; 6] {
    let seed = match long() {
        true => SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() % 1_000_000,
        false => 1,
    };
    let options = match long() {
        true => ["--max-time", "600", "--phases", "examples,coverage,fuzzing,stateful"],
        false => ["--max-examples", "8", "--phases", "examples,fuzzing,stateful"],
    };
    let [amount, number, phases, which] = options.map(str::to_owned);
    [amount, number, phases, which, "--seed".to_owned(), seed.to_string()]
}

#[test]
fn random_requests_get_only_documented_responses() {
    let schemathesis = std::env::var_os("HANDOVER_SCHEMATHESIS")
        .expect("HANDOVER_SCHEMATHESIS is not set: run `tests/run program requests`");
    let (folder, launch) = fresh();
    let mut server = launch.start().unwrap();
    let token = |user: &str, roles: &[&str]| {
        let mut arguments = vec!["token", "--user", user, "--ttl", "1h"];
        roles.iter().for_each(|role| arguments.extend(["--role", *role]));
        let (code, token, error) = launch.run(&arguments).unwrap();
        assert_eq!(code, Some(0), "{error}");
        token.trim().to_owned()
    };
    // The tokens of the seller, the buyer and the operator.
    let tokens = [token("1", &["user"]), token("2", &["user"]), token("3", &["user", "operator", "pii"])];
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("program/requests/hooks.py");
    let output = Command::new(schemathesis)
        .current_dir(folder.path())
        .env("SCHEMATHESIS_HOOKS", hooks)
        .env("REQUEST_TOKENS", tokens.join(","))
        .env("REQUEST_GATEWAY_SECRET", launch.secret("gateway"))
        .args(["run", &format!("{}/openapi.json", server.base()), "--checks", CHECKS])
        .args(["--continue-on-failure", "--no-color"])
        .args(requests())
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{report}");
    assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.ended().unwrap(), None, "the program ended:\n{}", launch.log());
    assert!(!launch.log().contains("panicked"), "{}", launch.log());
    server.terminate(Duration::from_secs(60)).unwrap();
}
