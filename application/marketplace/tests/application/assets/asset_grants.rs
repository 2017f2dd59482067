//! Asset grants by operators.

use handover_outbox::ports::AuditFilter;
use marketplace::idempotency::{Call, ClaimOutcome, IdempotentRequest};
use marketplace::ports::{RequestScope, StoredResponse};
use marketplace::use_cases::UseCaseError;
use marketplace::use_cases::operations::AssetGrant;
use marketplace_domain::*;

use super::market::{Market, buyer, operator, points};
use crate::support::{BUYER, CommitFault, TENANT, by, money};

#[tokio::test(start_paused = true)]
async fn asset_grant_repeated_with_the_same_key_takes_effect_once_and_returns_the_first_result() {
    let market = Market::new().await;
    let scope = RequestScope {
        tenant: TENANT,
        user: operator().user().unwrap(),
        route: "POST /asset-grants".into(),
        key: "may-2026".into(),
    };
    let request = IdempotentRequest { scope, body_hash: String::new(), trace_id: "t".into() };
    let ClaimOutcome::New(claim) = market.app().idempotency.begin(request).await.unwrap() else {
        panic!("expected a new claim");
    };
    let operator = operator();
    let call = || {
        let response = |_: &AssetOperation| Ok(StoredResponse { code: 201, text: "null".into() });
        Call::new(&operator, Some(&claim), response)
    };
    let first = market
        .app()
        .operations
        .grant_asset(call(), buyer(), AssetGrant::Deposit(money(500)), None)
        .await
        .unwrap();
    let again = market
        .app()
        .operations
        .grant_asset(call(), buyer(), AssetGrant::Deposit(money(500)), None)
        .await
        .unwrap();
    assert_eq!(again, first);
    assert_eq!(market.purse(Purse::Wallet).await, (500, 0, 0));
    let other =
        market.app().operations.grant_asset(call(), buyer(), AssetGrant::Deposit(money(501)), None).await;
    assert!(matches!(other, Err(UseCaseError::KeyReused)), "{other:?}");
    let another_user = 11.try_into().unwrap();
    market
        .app()
        .operations
        .grant_asset(call(), another_user, AssetGrant::Deposit(money(501)), None)
        .await
        .unwrap();
    assert_eq!(market.purse(Purse::Wallet).await, (500, 0, 0));
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn asset_grants_require_an_operator_and_are_audited() {
    let market = Market::new().await;
    let refused =
        market.app().operations.grant_asset(&by(BUYER), buyer(), AssetGrant::Grant(points(5)), None).await;
    assert!(matches!(refused, Err(UseCaseError::NotAllowed(_))), "{refused:?}");
    market.grant(5).await;
    market.coupon(100).await;
    let entries =
        market.world.view().await.outbox_view().audit_page(&AuditFilter::default(), None, 10).await.unwrap();
    let actions: Vec<String> = entries.into_iter().map(|entry| entry.effect.action).collect();
    assert_eq!(actions, ["coupon.issue", "points.grant"]);
}

#[tokio::test(start_paused = true)]
async fn asset_grant_is_audited_once_after_a_commit_fault() {
    for faults in
        [&[CommitFault::ReplyLost][..], &[CommitFault::Lost], &[CommitFault::Lost, CommitFault::ReplyLost]]
    {
        let market = Market::new().await;
        market.grant(1).await;
        market.coupon(100).await;
        for action in ["points.grant", "coupon.issue"] {
            market.process.faults.next_commits(faults.iter().copied());
            match action {
                "points.grant" => market.grant(5).await,
                _ => drop(market.coupon(200).await),
            }
            let log = market
                .world
                .view()
                .await
                .outbox_view()
                .audit_page(&AuditFilter::default(), None, 10)
                .await
                .unwrap();
            let changed: Vec<u64> = log
                .iter()
                .filter(|entry| entry.effect.action == action)
                .map(|entry| entry.effect.changed)
                .collect();
            assert_eq!(changed, [1, 1], "{action} {faults:?}");
        }
        market.assert_ledger_balanced().await;
    }
}
