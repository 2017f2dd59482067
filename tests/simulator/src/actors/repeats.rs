//! Sellers who list under an idempotency key and ask again: at once, later, elsewhere, too slowly, with another body.

use marketplace::App;
use marketplace::idempotency::{Answered, Begun, KeyedRequest, begin};
use marketplace::ports::{IdempotencyError, RequestScope};
use marketplace::use_cases::{ListProduct, UseCaseError, list_product};
use marketplace_domain::{Money, Title};

use super::journal::{Journal, Keyed};
use super::{by_user, tenants, user};
use crate::faults::{Fault, Faults};

/// Some attempts at one request, often of an earlier one.
pub(super) async fn some(app: &App, faults: &Faults, journal: &Journal) {
    let dice = &faults.dice;
    let request = match dice.pick(&journal.keyed()) {
        Some(earlier) if dice.permille(500) => earlier.clone(),
        Some(_) | None => new(faults, journal),
    };
    for _ in 0..1 + dice.below(3) {
        if faults.strikes(Fault::AsksTwice) {
            tokio::join!(once(app, faults, journal, &request), once(app, faults, journal, &request));
        } else {
            once(app, faults, journal, &request).await;
        }
        app.tx.clock.sleep(dice.millis(1..1_500)).await;
    }
    if journal.was_answered(&request) {
        otherwise(app, faults, &request).await;
    }
}

fn new(faults: &Faults, journal: &Journal) -> Keyed {
    let [first, second] = tenants();
    let tenant = if faults.dice.permille(600) { first } else { second };
    let number = faults.dice.below(u64::MAX);
    let request = Keyed {
        scope: RequestScope {
            tenant,
            user: user(200 + faults.dice.below(4)),
            route: "POST /api/v1/products".to_owned(),
            key: format!("key-{number:x}"),
        },
        title: Title::try_from(format!("keyed {number:x}")).expect("a legal title"),
    };
    journal.asked(request.clone());
    request
}

/// One attempt, as the edge makes it.
async fn once(app: &App, faults: &Faults, journal: &Journal, request: &Keyed) {
    let who = format!("seller {}", request.scope.user);
    let mut context = by_user(faults, request.scope.tenant, request.scope.user);
    let asked = asked(request, request.title.as_str(), &context.trace.trace_id);
    let ticket = match begin(app, asked, written).await {
        Ok(Begun::First(ticket)) => ticket,
        Ok(Begun::Before(answer)) => {
            faults.cover(|coverage| coverage.place("a request that was answered before"));
            return journal.answered(request, &answer.data);
        }
        Err(IdempotencyError::KeyTaken) => {
            return faults.violation(format!("a repeat under {} was taken for another", request.scope.key));
        }
        Err(IdempotencyError::InProgress) => {
            return faults.cover(|coverage| coverage.place("a repeat while the first is at work"));
        }
        Err(error) => return faults.note(&who, || format!("does not know: {error}")),
    };
    if faults.dice.permille(250) {
        // Beyond its lease, at times.
        app.tx.clock.sleep(faults.dice.millis(1..3_000)).await;
    }
    context.idempotency = Some(ticket.clone());
    let price = Money::from_minor(1_000).expect("a legal price");
    match list_product(app, &context, ListProduct { title: request.title.clone(), price }).await {
        Ok(product) => match written(Answered::Product(&product)) {
            Ok(data) => journal.answered(request, &data),
            Err(error) => faults.violation(format!("an answer cannot be written: {error}")),
        },
        Err(error) => {
            if matches!(error, UseCaseError::InProgress) {
                faults.cover(|coverage| coverage.place("an attempt that was overtaken"));
            }
            faults.note(&who, || format!("does not know: {error}"));
            if let Err(error) = ticket.refused().await {
                faults.note(&who, || format!("leaves its key claimed: {error}"));
            }
        }
    }
}

/// Another body under the key of a request that was answered.
async fn otherwise(app: &App, faults: &Faults, request: &Keyed) {
    let asked = asked(request, "another body", "otherwise");
    if let Ok(begun) = begin(app, asked, written).await {
        faults.violation(format!("another body under {} was answered with {begun:?}", request.scope.key));
    }
}

fn asked(request: &Keyed, body: &str, trace_id: &str) -> KeyedRequest {
    KeyedRequest { scope: request.scope.clone(), body_hash: body.to_owned(), trace_id: trace_id.to_owned() }
}

fn written(answered: Answered<'_>) -> Result<String, serde_json::Error> {
    match answered {
        Answered::Product(product) => Ok(product.id.to_string()),
        Answered::Order(_)
        | Answered::Payment(_)
        | Answered::Refund(_)
        | Answered::Operation(_)
        | Answered::Coupon(_) => Ok("another thing".to_owned()),
    }
}
