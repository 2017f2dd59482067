//! The table of invalid input: requests to a running program over a socket, each with the expected status, error code
//! and field names. A rejected request changes no table except those that also change in the background. Every response
//! is a complete envelope that contains no internals of the program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a failed check panics with the observed value, and real processes run in real time"
)]

mod asset_grants;
mod assets;
mod bodies;
mod callbacks;
mod case;
mod market;
mod money;
mod operations;
mod orders;
mod products;
mod queries;
mod reconciliation;
mod refunds;
mod tables;
mod tokens;
mod transport;
mod verdict;
mod wire;

use self::case::{Case, post};
use self::market::{Market, SELLER};
use self::verdict::{Finding, defects, run_all};
use self::wire::Response;

fn table(market: &Market) -> Vec<Case> {
    [
        products::cases(market),
        orders::cases(market),
        callbacks::cases(market),
        assets::cases(market),
        asset_grants::cases(market),
        refunds::cases(market),
        money::cases(market),
        tokens::cases(market),
        queries::cases(market),
        operations::cases(market),
        reconciliation::cases(market),
        transport::cases(market),
    ]
    .concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_table_gets_expected_response_and_rejected_ones_change_nothing() {
    let market = Market::open().await;
    let cases = table(&market);
    let names: std::collections::BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "names are unique");
    let findings = run_all(&market, &cases).await;
    println!("{} requests, {} with findings", cases.len(), findings.len());
    assert!(findings.is_empty(), "\n{}", formatted(&findings));
    market.assert_healthy().await;
}

/// Formats the findings, one line per finding.
fn formatted(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}

/// Tests the check of the table: a difference from the expectation is reported.
#[tokio::test(flavor = "multi_thread")]
async fn difference_from_expectation_is_a_finding() {
    let market = Market::open().await;
    let body = r#"{"title":"a lamp","price":1}"#;
    let lamp = |name: &str| post(name, "/api/v1/products").by(SELLER).json(body);
    let findings = run_all(
        &market,
        &[
            lamp("accepted request that should be refused").refused(400, "A0400", &["title"]),
            lamp("accepted request that should change nothing").unchanged(201),
            lamp("accepted request").done(201),
            post("refused request that should name another field", "/api/v1/products")
                .by(SELLER)
                .json(r#"{"title":"a"}"#)
                .refused(400, "A0400", &["title"]),
            post("refused request that should succeed", "/api/v1/products").by(SELLER).json("{}").done(201),
        ],
    )
    .await;
    let summaries: Vec<(&str, String)> =
        findings.iter().map(|finding| (finding.name.as_str(), finding.defects.join("; "))).collect();
    let assert_found = |name: &str, parts: &[&str]| {
        let defects = summaries.iter().find(|(found, _)| *found == name).map_or("", |(_, defects)| defects);
        assert!(parts.iter().all(|part| defects.contains(part)), "{name}: {summaries:#?}");
    };
    assert_found("accepted request that should be refused", &["201", "products changed"]);
    assert_found("accepted request that should change nothing", &["products changed"]);
    assert_found("refused request that should name another field", &["price"]);
    assert_found("refused request that should succeed", &["400", "nothing changed"]);
    assert_eq!(summaries.len(), 4, "{summaries:#?}");
}

/// Each response differs from a valid one in exactly one way.
#[tokio::test(flavor = "multi_thread")]
async fn response_with_broken_envelope_is_a_finding() {
    let market = Market::open().await;
    let case = post("an order", "/api/v1/orders").header("X-Trace-Id", "t-1").refused(401, "A0301", &[]);
    let valid = Response {
        status: 401,
        headers: [
            ("content-type", "application/json"),
            ("x-trace-id", "t-1"),
            ("x-request-id", "r-1"),
            ("www-authenticate", "Bearer"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        body: r#"{"code":"A0301","message":"no","data":null,"traceId":"t-1"}"#.to_owned(),
    };
    assert_eq!(defects(&market, &case, &valid), Vec::<String>::new());
    let without = |name: &str| {
        let headers = valid.headers.iter().filter(|(header, _)| header != name).cloned().collect();
        Response { headers, ..valid.clone() }
    };
    let saying = |from: &str, to: &str| Response { body: valid.body.replace(from, to), ..valid.clone() };
    for (what, response) in [
        ("status", Response { status: 400, ..valid.clone() }),
        ("content type", without("content-type")),
        ("trace in the header", without("x-trace-id")),
        ("request id in the header", without("x-request-id")),
        ("scheme", without("www-authenticate")),
        ("code", saying("A0301", "A0303")),
        ("message", saying("\"no\"", "\"\"")),
        ("data", saying("null", r#"{"hint":1}"#)),
        ("errors", saying("null", r#"{"errors":[{"field":"x","message":"y"}]}"#)),
        ("trace in the body", saying("t-1", "t-2")),
        ("an additional field", saying("\"data\"", "\"path\":1,\"data\"")),
        ("SQL", saying("\"no\"", "\"SELECT * FROM orders\"")),
        ("a secret", saying("\"no\"", &format!("\"{}\"", market.jwt_secret()))),
        ("not JSON", saying("{", "")),
    ] {
        assert_ne!(defects(&market, &case, &response), Vec::<String>::new(), "{what}: no defect found");
    }
}
