//! Requests with an idempotency key: takeover of a claim, replayed responses and deferred responses.

use std::time::Duration;

use marketplace::App;
use marketplace::idempotency::*;
use marketplace::ports::{RequestScope, StoredResponse};
use marketplace::use_cases::*;
use marketplace_domain::Product;

use crate::support::{CommitFault, SELLER, TENANT, World, by, millis, money, pass, secs};

fn keyed_request(key: &str) -> IdempotentRequest {
    IdempotentRequest {
        scope: RequestScope {
            tenant: TENANT,
            user: SELLER.try_into().unwrap(),
            route: "POST /api/v1/products".into(),
            key: key.into(),
        },
        body_hash: "b".into(),
        trace_id: "t".into(),
    }
}

fn write_response(product: &Product) -> Result<StoredResponse, serde_json::Error> {
    Ok(StoredResponse { code: 201, text: product.id.to_string() })
}

async fn listed(app: &App, claim: UnitClaim) -> Option<String> {
    let seller = by(SELLER);
    let call = Call::new(&seller, Some(&claim), write_response);
    let command = ListProduct { title: "Desk".to_owned().try_into().unwrap(), price: money(100) };
    app.ordering.list_product(call, command).await.ok().map(|product| product.id.to_string())
}

/// An attempt whose lease has expired finishes while another attempt takes over its claim. In each tested interleaving,
/// exactly one of the two attempts is committed.
#[tokio::test(start_paused = true)]
async fn exactly_one_attempt_completes_when_an_expired_lease_is_taken_over() {
    let mut late = 0;
    let mut taken_over = 0;
    for steps in 0..20 {
        let world = World::new().await;
        let lease = Duration::from_secs(5);
        let settings = RequestSettings { lease, ..RequestSettings::default() };
        let one = world.process();
        let other = world.process();
        let app = one.app.clone().with_requests(settings.clone());
        let ClaimOutcome::New(slow) = app.idempotency.begin(keyed_request("key")).await.unwrap() else {
            panic!("expected a new claim")
        };
        pass(secs(6)).await;
        one.faults.next_commits([CommitFault::Slow; 2]);
        let second = async {
            pass(millis(steps * 150)).await;
            other.app.with_requests(settings).idempotency.begin(keyed_request("key")).await
        };
        let (first, second) = tokio::join!(listed(&app, slow), second);
        match (first, second.unwrap()) {
            (None, ClaimOutcome::New(claim)) => {
                taken_over += 1;
                assert!(
                    listed(&app, claim).await.is_some(),
                    "after {steps} steps of 150 ms: the attempt that took over the claim was not committed"
                );
            }
            (Some(id), ClaimOutcome::Replayed(response)) => {
                late += 1;
                assert_eq!(response.text, id);
            }
            other => {
                panic!("after {steps} steps of 150 ms: {other:?}, expected exactly one committed attempt")
            }
        }
    }
    assert!(
        late > 0 && taken_over > 0,
        "{late} late attempts and {taken_over} takeovers were committed, expected at least one of each"
    );
}

/// A process crashed during a request, then the clock was set back by more than the lease. The client MUST NOT wait
/// until the clock has caught up.
#[tokio::test(start_paused = true)]
async fn claim_with_a_future_lease_is_taken_over_after_the_clock_is_set_back() {
    let world = World::new().await;
    let one = world.process();
    let other = world.process();
    let ClaimOutcome::New(lost) = one.app.idempotency.begin(keyed_request("key")).await.unwrap() else {
        panic!("expected a new claim")
    };
    world.clock.set_skew(chrono::TimeDelta::minutes(-5));
    let ClaimOutcome::New(claim) = other.app.idempotency.begin(keyed_request("key")).await.unwrap() else {
        panic!("expected the claim to be taken over")
    };
    assert_eq!(
        listed(&one.app, lost).await,
        None,
        "the attempt whose claim was taken over must not be committed"
    );
    assert!(listed(&other.app, claim).await.is_some());
}

/// A unit of work whose commit reply is lost is repeated and finds its own changes. The fault affects the claim of the
/// key, the reservation of an id block, or the command.
#[tokio::test(start_paused = true)]
async fn response_is_replayed_after_a_lost_commit_reply() {
    for nth in 0..4 {
        let world = World::new().await;
        let process = world.process();
        let mut faults = vec![CommitFault::None; nth];
        faults.push(CommitFault::ReplyLost);
        process.faults.next_commits(faults);
        let ClaimOutcome::New(claim) = process.app.idempotency.begin(keyed_request("key")).await.unwrap()
        else {
            panic!("expected a new claim")
        };
        let id = listed(&process.app, claim).await.expect("the product must be listed");
        let again = process.app.idempotency.begin(keyed_request("key")).await.unwrap();
        let ClaimOutcome::Replayed(response) = again else { panic!("{nth}: {again:?}") };
        assert_eq!(response.text, id);
        let listed = world.view().await.products_page(TENANT, None, None, 10).await.unwrap();
        assert_eq!(listed.len(), 1, "{nth}");
    }
}

/// A deferred response is stored in the database unless another store is configured. A command that stores its response in
/// its own unit of work takes no such claim: `Call` requires a `UnitClaim`.
#[tokio::test(start_paused = true)]
async fn deferred_response_is_stored_in_the_database_and_replayed() {
    let world = World::new().await;
    let app = world.process().app;
    let ClaimOutcome::New(claim) =
        app.idempotency.begin_with_deferred_response(keyed_request("key")).await.unwrap()
    else {
        panic!("expected a new claim")
    };
    claim.done(StoredResponse { code: 200, text: "1".into() }).await.unwrap();
    let again = app.idempotency.begin(keyed_request("key")).await.unwrap();
    assert!(matches!(again, ClaimOutcome::Replayed(StoredResponse { code: 200, .. })), "{again:?}");
}
