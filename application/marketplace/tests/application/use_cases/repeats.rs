//! Requests under an idempotency key, at the moments at which two attempts meet.

use std::time::Duration;

use marketplace::idempotency::*;
use marketplace::ports::{RequestScope, StoredAnswer};
use marketplace::use_cases::*;
use marketplace::{App, CommandContext};

use crate::support::{CommitFault, SELLER, TENANT, World, by, millis, money, pass, secs};

fn asked(key: &str) -> KeyedRequest {
    KeyedRequest {
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

fn written(answered: Answered<'_>) -> Result<String, serde_json::Error> {
    let Answered::Product(product) = answered else { panic!("{answered:?}") };
    Ok(product.id.to_string())
}

async fn listed(app: &App, ticket: Ticket) -> Option<String> {
    let context = CommandContext { idempotency: Some(ticket), ..by(SELLER) };
    let command = ListProduct { title: "Desk".to_owned().try_into().unwrap(), price: money(100) };
    list_product(app, &context, command).await.ok().map(|product| product.id.to_string())
}

/// One whose lease has ended answers at the very moment at which another takes over: one of the two is done, whoever is
/// first at each step.
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_while_another_takes_over_stands_alone() {
    let (mut late, mut overtaken) = (0, 0);
    for steps in 0..20 {
        let world = World::new().await;
        let lease = Duration::from_secs(5);
        let settings = RequestSettings { lease, ..RequestSettings::default() };
        let (one, other) = (world.process(), world.process());
        let app = one.app.clone().with_requests(settings.clone());
        let Begun::First(slow) = begin(&app, asked("key"), written).await.unwrap() else { panic!("new") };
        pass(secs(6)).await;
        one.faults.next_commits([CommitFault::Slow; 2]);
        let second = async {
            pass(millis(steps * 150)).await;
            begin(&other.app.with_requests(settings), asked("key"), written).await
        };
        let (first, second) = tokio::join!(listed(&app, slow), second);
        match (first, second.unwrap()) {
            (None, Begun::First(ticket)) => {
                overtaken += 1;
                assert!(listed(&app, ticket).await.is_some(), "after {steps} steps");
            }
            (Some(id), Begun::Before(answer)) => {
                late += 1;
                assert_eq!(answer.data, id);
            }
            other => panic!("after {steps} steps: {other:?}"),
        }
    }
    assert!(late > 0 && overtaken > 0, "{late} answered, {overtaken} overtaken");
}

/// A process died while it worked on a request, and then the clock was set back by more than the lease: the client is not
/// kept waiting until the clock has caught up.
#[tokio::test(start_paused = true)]
async fn a_claim_that_a_clock_wrote_which_was_set_back_is_overtaken() {
    let world = World::new().await;
    let (one, other) = (world.process(), world.process());
    let Begun::First(lost) = begin(&one.app, asked("key"), written).await.unwrap() else { panic!("new") };
    world.clock.set_skew(chrono::TimeDelta::minutes(-5));
    let Begun::First(ticket) = begin(&other.app, asked("key"), written).await.unwrap() else {
        panic!("overtaken")
    };
    assert_eq!(listed(&one.app, lost).await, None, "what was overtaken commits nothing");
    assert!(listed(&other.app, ticket).await.is_some());
}

/// A commit whose answer is lost is repeated, and finds what it did: the claim's, the ids', the command's.
#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_is_lost_is_answered_as_any_other() {
    for nth in 0..4 {
        let world = World::new().await;
        let process = world.process();
        let mut faults = vec![CommitFault::None; nth];
        faults.push(CommitFault::AnswerLost);
        process.faults.next_commits(faults);
        let Begun::First(ticket) = begin(&process.app, asked("key"), written).await.unwrap() else {
            panic!("new")
        };
        let id = listed(&process.app, ticket).await.expect("it is listed");
        let again = begin(&process.app, asked("key"), written).await.unwrap();
        let Begun::Before(answer) = again else { panic!("{nth}: {again:?}") };
        assert_eq!(answer.data, id);
        let listed = world.view().await.products_page(TENANT, None, None, 10).await.unwrap();
        assert_eq!(listed.len(), 1, "{nth}");
    }
}

/// A command that keeps its answer in its own unit of work does nothing under a key that was claimed for afterwards: its
/// answer would be lost in a crash, and it would be done twice.
#[tokio::test(start_paused = true)]
async fn a_command_refuses_a_key_that_was_claimed_for_afterwards() {
    let world = World::new().await;
    let app = world.process().app;
    let Begun::First(ticket) = begin_afterwards(&app, asked("key")).await.unwrap() else { panic!("new") };
    let context = CommandContext { idempotency: Some(ticket.clone()), ..by(SELLER) };
    let command = ListProduct { title: "Desk".to_owned().try_into().unwrap(), price: money(100) };
    let refused = list_product(&app, &context, command).await.unwrap_err();
    assert!(
        refused.to_string().contains("POST /api/v1/products keeps its answer in its transaction"),
        "{refused}"
    );
    assert!(world.view().await.products_page(TENANT, None, None, 10).await.unwrap().is_empty());
    // What is answered afterwards is kept where everything is, unless there is another place.
    ticket.done(StoredAnswer { status: 200, data: "1".into() }).await.unwrap();
    let again = begin(&app, asked("key"), written).await.unwrap();
    assert!(matches!(again, Begun::Before(StoredAnswer { status: 200, .. })), "{again:?}");
}
