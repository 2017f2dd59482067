//! The table of bad input: requests to one running program over a real socket, each with the status, the code and the
//! fields that its answer must name. A refused request leaves every table of the database as it was, and every answer is
//! the envelope and shows nothing of what is behind it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a broken promise panics with what it saw, and real processes run on real time"
)]

mod assets;
mod bodies;
mod callbacks;
mod case;
mod gifts;
mod market;
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
use self::verdict::{Finding, flaws, try_all};
use self::wire::Response;

/// Every request of the table.
fn table(market: &Market) -> Vec<Case> {
    [
        products::cases(market),
        orders::cases(market),
        callbacks::cases(market),
        assets::cases(market),
        gifts::cases(market),
        refunds::cases(market),
        tokens::cases(market),
        queries::cases(market),
        operations::cases(market),
        reconciliation::cases(market),
        transport::cases(market),
    ]
    .concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_the_table_is_answered_as_it_says_and_a_refused_one_changes_nothing() {
    let market = Market::open().await;
    let cases = table(&market);
    let names: std::collections::BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "a name stands for one request");
    let findings = try_all(&market, &cases).await;
    println!("{} requests, {} with findings", cases.len(), findings.len());
    assert!(findings.is_empty(), "\n{}", shown(&findings));
    market.ends_well().await;
}

/// One line per finding.
fn shown(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}

/// The table, tested: what it must notice is noticed.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_succeeds_where_a_refusal_is_expected_is_a_finding() {
    let market = Market::open().await;
    let body = r#"{"title":"a lamp","price":1}"#;
    let lamp = |name: &str| post(name, "/api/v1/products").by(SELLER).json(body);
    let findings = try_all(
        &market,
        &[
            lamp("taken, expected to be refused").refused(400, "A0400", &["title"]),
            lamp("taken, expected to change nothing").unchanged(201),
            lamp("taken").done(201),
            post("refused with another field", "/api/v1/products")
                .by(SELLER)
                .json(r#"{"title":"a"}"#)
                .refused(400, "A0400", &["title"]),
            post("refused, expected to be done", "/api/v1/products").by(SELLER).json("{}").done(201),
        ],
    )
    .await;
    let said: Vec<(&str, String)> =
        findings.iter().map(|finding| (finding.name.as_str(), finding.flaws.join("; "))).collect();
    let noticed = |name: &str, parts: &[&str]| {
        let flaws = said.iter().find(|(found, _)| *found == name).map_or("", |(_, flaws)| flaws);
        assert!(parts.iter().all(|part| flaws.contains(part)), "{name}: {said:#?}");
    };
    noticed("taken, expected to be refused", &["201", "products changed"]);
    noticed("taken, expected to change nothing", &["products changed"]);
    noticed("refused with another field", &["price"]);
    noticed("refused, expected to be done", &["400", "nothing changed"]);
    assert_eq!(said.len(), 4, "{said:#?}");
}

/// An answer that looks like ours but breaks the envelope in one way.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_the_envelope_is_a_finding() {
    let market = Market::open().await;
    let case = post("an order", "/api/v1/orders").header("X-Trace-Id", "t-1").refused(401, "A0301", &[]);
    let sound = Response {
        status: 401,
        headers: [
            ("content-type", "application/json"),
            ("x-trace-id", "t-1"),
            ("www-authenticate", "Bearer"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        body: r#"{"code":"A0301","message":"no","data":null,"traceId":"t-1"}"#.to_owned(),
    };
    assert_eq!(flaws(&market, &case, &sound), Vec::<String>::new());
    let without = |name: &str| {
        let headers = sound.headers.iter().filter(|(given, _)| given != name).cloned().collect();
        Response { headers, ..sound.clone() }
    };
    let saying = |from: &str, to: &str| Response { body: sound.body.replace(from, to), ..sound.clone() };
    for (what, response) in [
        ("status", Response { status: 400, ..sound.clone() }),
        ("content type", without("content-type")),
        ("trace in the header", without("x-trace-id")),
        ("scheme", without("www-authenticate")),
        ("code", saying("A0301", "A0303")),
        ("message", saying("\"no\"", "\"\"")),
        ("data", saying("null", r#"{"hint":1}"#)),
        ("errors", saying("null", r#"{"errors":[{"field":"x","message":"y"}]}"#)),
        ("trace in the body", saying("t-1", "t-2")),
        ("a field more", saying("\"data\"", "\"path\":1,\"data\"")),
        ("SQL", saying("\"no\"", "\"SELECT * FROM orders\"")),
        ("a secret", saying("\"no\"", &format!("\"{}\"", market.jwt_secret()))),
        ("no JSON", saying("{", "")),
    ] {
        assert_ne!(flaws(&market, &case, &response), Vec::<String>::new(), "{what} was not noticed");
    }
}
