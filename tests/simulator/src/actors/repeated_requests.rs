//! Sellers who list products with an idempotency key and repeat the request: at the same time, later, at another
//! process, with another body.

use marketplace::App;
use marketplace::idempotency::{Call, ClaimOutcome, IdempotentRequest};
use marketplace::ports::{IdempotencyError, RequestScope, StoredResponse};
use marketplace::use_cases::{ListProduct, UseCaseError};
use marketplace_domain::{Money, Product, Title};

use super::journal::{Journal, KeyedListing};
use super::{by_user, tenants, user};
use crate::fault_kinds::Fault;
use crate::faults::Faults;

/// Sends one request several times. The request is new, or one that was sent in an earlier call.
pub(super) async fn send_repeatedly(app: &App, faults: &Faults, journal: &Journal) {
    let random = &faults.random;
    let request = match random.pick(&journal.keyed()) {
        Some(earlier) if random.permille(500) => earlier.clone(),
        Some(_) | None => new_request(faults, journal),
    };
    for _ in 0..1 + random.below(3) {
        if faults.occurs(Fault::ConcurrentRepeat) {
            tokio::join!(
                send_once(app, faults, journal, &request),
                send_once(app, faults, journal, &request)
            );
        } else {
            send_once(app, faults, journal, &request).await;
        }
        app.tx.sleep(random.millis(1..1_500)).await;
    }
    if journal.has_response(&request) {
        send_another_body(app, faults, &request).await;
    }
}

fn new_request(faults: &Faults, journal: &Journal) -> KeyedListing {
    let [first, second] = tenants();
    let tenant = if faults.random.permille(600) { first } else { second };
    let number = faults.random.below(u64::MAX);
    let request = KeyedListing {
        scope: RequestScope {
            tenant,
            user: user(200 + faults.random.below(4)),
            route: "POST /api/v1/products".to_owned(),
            key: format!("key-{number:x}"),
        },
        title: Title::try_from(format!("keyed {number:x}")).expect("a valid title"),
    };
    journal.record_request(request.clone());
    request
}

/// Sends a request once, with the same calls of use cases as the HTTP adapter.
async fn send_once(app: &App, faults: &Faults, journal: &Journal, request: &KeyedListing) {
    let who = format!("seller {}", request.scope.user);
    let context = by_user(faults, request.scope.tenant, request.scope.user);
    let keyed = keyed_request(request, request.title.as_str(), &context.trace.trace_id);
    let claim = match app.idempotency.begin(keyed).await {
        Ok(ClaimOutcome::New(claim)) => claim,
        Ok(ClaimOutcome::Replayed(stored)) => return replayed(faults, journal, request, &stored),
        Err(IdempotencyError::KeyReused) => return treated_as_another(faults, request),
        Err(IdempotencyError::InProgress) => return in_progress(faults),
        Err(error) => return faults.note(&who, || format!("outcome unknown: {error}")),
    };
    if faults.random.permille(250) {
        // Another process may execute the request first.
        app.tx.sleep(faults.random.millis(1..3_000)).await;
    }
    let call = Call::new(&context, Some(&claim), encode);
    let command = ListProduct { title: request.title.clone(), price: price() };
    match app.ordering.list_product(call, command).await {
        Ok(product) => match encode(&product) {
            Ok(response) => journal.record_keyed_response(request, &response.text),
            Err(error) => faults.violation(format!("the response cannot be serialized: {error}")),
        },
        Err(UseCaseError::Replayed(stored)) => replayed(faults, journal, request, &stored),
        Err(UseCaseError::KeyReused) => treated_as_another(faults, request),
        Err(UseCaseError::InProgress) => in_progress(faults),
        Err(error) => faults.note(&who, || format!("outcome unknown: {error}")),
    }
}

fn replayed(faults: &Faults, journal: &Journal, request: &KeyedListing, stored: &StoredResponse) {
    faults.cover(|coverage| coverage.situation("replayed response"));
    journal.record_keyed_response(request, &stored.text);
}

fn in_progress(faults: &Faults) {
    faults.cover(|coverage| coverage.situation("request repeated while in progress"));
}

fn treated_as_another(faults: &Faults, request: &KeyedListing) {
    faults.violation(format!("a repetition with {} was treated as another request", request.scope.key));
}

/// Sends another body with the key of a completed request; it must be rejected.
async fn send_another_body(app: &App, faults: &Faults, request: &KeyedListing) {
    let keyed = keyed_request(request, "another body", "otherwise");
    let Ok(ClaimOutcome::New(claim)) = app.idempotency.begin(keyed).await else { return };
    let context = by_user(faults, request.scope.tenant, request.scope.user);
    let call = Call::new(&context, Some(&claim), encode);
    let command = ListProduct { title: request.title.clone(), price: price() };
    match app.ordering.list_product(call, command).await {
        Ok(product) => {
            faults.violation(format!("another body with {} was accepted: {}", request.scope.key, product.id));
        }
        Err(UseCaseError::Replayed(stored)) => {
            faults.violation(format!("another body with {} got {}", request.scope.key, stored.text));
        }
        Err(_) => {}
    }
}

fn price() -> Money {
    Money::from_minor(1_000).expect("a valid price")
}

fn keyed_request(request: &KeyedListing, body: &str, trace_id: &str) -> IdempotentRequest {
    IdempotentRequest {
        scope: request.scope.clone(),
        body_hash: body.to_owned(),
        trace_id: trace_id.to_owned(),
    }
}

fn encode(product: &Product) -> Result<StoredResponse, serde_json::Error> {
    Ok(StoredResponse { code: 201, text: product.id.to_string() })
}
