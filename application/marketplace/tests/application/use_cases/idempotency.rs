//! Requests with an idempotency key: concurrent attempts, replayed responses and deferred responses.

use marketplace::App;
use marketplace::idempotency::*;
use marketplace::ports::{IdempotencyError, RequestScope, StoredResponse};
use marketplace::use_cases::*;
use marketplace_domain::Product;

use crate::support::{CommitFault, SELLER, TENANT, World, by, millis, money, pass};

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

/// The product that a claimed request lists, or the stored one.
async fn listed(app: &App, claim: UnitClaim) -> Result<String, UseCaseError> {
    let seller = by(SELLER);
    let call = Call::new(&seller, Some(&claim), write_response);
    let command = ListProduct { title: "Desk".to_owned().try_into().unwrap(), price: money(100) };
    app.ordering.list_product(call, command).await.map(|product| product.id.to_string())
}

async fn admitted(app: &App) -> UnitClaim {
    match app.idempotency.begin(keyed_request("key")).await.unwrap() {
        ClaimOutcome::New(claim) => claim,
        ClaimOutcome::Replayed(response) => panic!("expected a new claim, not {response:?}"),
    }
}

/// Two processes execute a request at the same time: in each tested interleaving one of them lists the product, and the
/// other is refused at once or gets the stored response.
#[tokio::test(start_paused = true)]
async fn request_is_executed_once_by_processes_that_get_it_at_the_same_time() {
    let mut refused = 0;
    let mut replayed = 0;
    for steps in 0..20 {
        let world = World::new().await;
        let [one, other] = [world.process(), world.process()];
        let [first, second] = [admitted(&one.app).await, admitted(&other.app).await];
        // The first commit is that of the block of ids.
        one.faults.next_commits([CommitFault::None, CommitFault::Slow]);
        let second = async {
            pass(millis(steps * 150)).await;
            listed(&other.app, second).await
        };
        let (first, second) = tokio::join!(listed(&one.app, first), second);
        let (Ok(id), Err(lost)) = (if first.is_ok() { (first, second) } else { (second, first) }) else {
            panic!("after {steps} steps of 150 ms: expected one listed product");
        };
        if let UseCaseError::Replayed(response) = lost {
            replayed += 1;
            assert_eq!(response.text, id, "after {steps} steps of 150 ms");
        } else {
            refused += 1;
            assert!(matches!(lost, UseCaseError::InProgress), "after {steps} steps of 150 ms: {lost}");
        }
        let listed = world.view().await.products_page(TENANT, None, None, 10).await.unwrap();
        assert_eq!(listed.len(), 1, "after {steps} steps of 150 ms");
    }
    assert!(
        refused > 0 && replayed > 0,
        "{refused} requests were refused and {replayed} replayed, expected at least one of each"
    );
}

/// A database ends the rollback of an attempt after the process has begun the next one. The client is not refused because of
/// the locks of an earlier attempt at its own request.
#[tokio::test(start_paused = true)]
async fn request_is_executed_although_the_rollback_of_its_first_attempt_is_late() {
    let world = World::new().await;
    let process = world.process();
    let claim = admitted(&process.app).await;
    // The first commit is that of the block of ids.
    process.faults.next_commits([CommitFault::None, CommitFault::LateRollback]);
    let id = listed(&process.app, claim).await.unwrap();
    let products = world.view().await.products_page(TENANT, None, None, 10).await.unwrap();
    assert_eq!(products.iter().map(|product| product.id.to_string()).collect::<Vec<_>>(), [id]);
}

/// While a process executes a request, it refuses a repetition without a query; when the attempt has ended, the key is free.
#[tokio::test(start_paused = true)]
async fn process_refuses_a_key_until_its_attempt_has_ended() {
    let world = World::new().await;
    let app = world.process().app;
    let claim = admitted(&app).await;
    let again = app.idempotency.begin(keyed_request("key")).await;
    assert!(matches!(again, Err(IdempotencyError::InProgress)), "{again:?}");
    drop(claim);
    let id = listed(&app, admitted(&app).await).await.unwrap();
    // While one repetition is answered, another one gets the stored response, too.
    let other_body = || IdempotentRequest { body_hash: "c".into(), ..keyed_request("key") };
    let repetition = admitted(&app).await;
    let again = app.idempotency.begin(keyed_request("key")).await.unwrap();
    assert!(matches!(&again, ClaimOutcome::Replayed(response) if response.text == id), "{again:?}");
    let reused = app.idempotency.begin(other_body()).await;
    assert!(matches!(reused, Err(IdempotencyError::KeyReused)), "{reused:?}");
    drop(repetition);
    // A request with another body does not stop a repetition: its own key was not used with this body.
    let _other_body = app.idempotency.begin(other_body()).await.unwrap();
    let again = app.idempotency.begin(keyed_request("key")).await.unwrap();
    assert!(matches!(&again, ClaimOutcome::Replayed(response) if response.text == id), "{again:?}");
}

/// A process crashed during a request of several units of work, then the clock was set back by more than the lease. The
/// client MUST NOT wait until the clock has caught up.
#[tokio::test(start_paused = true)]
async fn claim_with_a_future_lease_is_taken_over_after_the_clock_is_set_back() {
    let world = World::new().await;
    let [one, other] = [world.process(), world.process()];
    let begun = one.app.idempotency.begin_with_deferred_response(keyed_request("key")).await.unwrap();
    let ClaimOutcome::New(lost) = begun else { panic!("expected a new claim") };
    let busy = other.app.idempotency.begin_with_deferred_response(keyed_request("key")).await;
    assert!(matches!(busy, Err(IdempotencyError::InProgress)), "{busy:?}");
    world.clock.set_skew(chrono::TimeDelta::minutes(-5));
    let begun = other.app.idempotency.begin_with_deferred_response(keyed_request("key")).await.unwrap();
    let ClaimOutcome::New(claim) = begun else { panic!("expected the claim to be taken over") };
    let response = |text: &str| StoredResponse { code: 200, text: text.into() };
    lost.done(response("lost")).await.unwrap();
    claim.done(response("stored")).await.unwrap();
    let again = one.app.idempotency.begin_with_deferred_response(keyed_request("key")).await.unwrap();
    assert!(matches!(&again, ClaimOutcome::Replayed(found) if found.text == "stored"), "{again:?}");
}

/// A unit of work whose commit reply is lost is repeated and finds its own changes. The fault affects the reservation of an
/// id block or the command.
#[tokio::test(start_paused = true)]
async fn response_is_replayed_after_a_lost_commit_reply() {
    for nth in 0..3 {
        let world = World::new().await;
        let process = world.process();
        let mut faults = vec![CommitFault::None; nth];
        faults.push(CommitFault::ReplyLost);
        process.faults.next_commits(faults);
        let id =
            listed(&process.app, admitted(&process.app).await).await.expect("the product must be listed");
        let again = listed(&process.app, admitted(&process.app).await).await;
        assert!(
            matches!(&again, Err(UseCaseError::Replayed(response)) if response.text == id),
            "{nth}: {again:?}"
        );
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
    let again = listed(&app, admitted(&app).await).await;
    assert!(matches!(again, Err(UseCaseError::Replayed(StoredResponse { code: 200, .. }))), "{again:?}");
}
