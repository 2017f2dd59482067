//! An operator gives a user wallet balance, points or a coupon.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{
    Account, Asset, AssetOperation, Coupon, CouponId, CouponStatus, Money, OperationKey, OperationKind,
    Points, Posting, Purse, UserId,
};

use crate::idempotency::{Effect, with_answer};
use crate::ids::{IdTaken, require_free, with_own_ids};
use crate::ports::{IdKind, Work};
use crate::use_cases::UseCaseError;
use crate::{App, CommandContext, Role};
use handover_outbox::operations::{Action, Operator, Reason, asked, found_done};
use handover_outbox::ports::{AuditEntry, StoreError};

/// What is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gift {
    /// So much into the wallet.
    Deposit(Money),
    /// So many points.
    Grant(Points),
}

/// Gives wallet balance or points. Under the same idempotency key of the same operator it is given once, for ever,
/// and the first result is returned; the same key with another gift is refused. Without a key every call gives.
pub async fn give(
    app: &App,
    context: &CommandContext,
    user: UserId,
    gift: Gift,
    reason: Option<Reason>,
) -> Result<AssetOperation, UseCaseError> {
    let (giver, operator) = giver(context)?;
    let (tenant, now) = (context.tenant, app.now());
    let (purse, kind, amount, from) = match gift {
        Gift::Deposit(amount) => (Purse::Wallet, OperationKind::Deposit, amount.minor(), Account::Gateway),
        Gift::Grant(points) => (Purse::Points, OperationKind::Grant, points.get(), Account::PointsIssued),
    };
    let key = match &context.idempotency {
        Some(ticket) => OperationKey::by_operator(kind, user, giver, ticket.key()),
        None => OperationKey::by_operator(kind, user, giver, app.ids.event().as_str()),
    };
    let entry = entry(&operator, purse.asset(), kind, (user, amount), reason, now);
    let by = context.clone();
    with_answer(app, context, Effect::Creates, move |unit, attempt| {
        let (key, context, entry) = (key.clone(), by.clone(), entry.clone());
        Box::pin(async move {
            let users = [(tenant, user)];
            let balance = unit
                .lock_balances(purse, &users, now)
                .await?
                .pop()
                .ok_or(StoreError::Backend("a balance was asked for and not answered".into()))?;
            if let Some(before) = unit.operations_by_key(tenant, std::slice::from_ref(&key)).await?.pop() {
                if (before.user, before.kind, before.amount) != (user, kind, amount) {
                    return Err(UseCaseError::KeyTaken);
                }
                found_done(unit.outbox(), attempt, &entry).await?;
                return Ok(before);
            }
            let (after, entries) = balance.receive(amount, from, now)?;
            let operation = AssetOperation {
                tenant,
                key,
                asset: purse.asset(),
                kind,
                user,
                order: None,
                refund: None,
                coupon: None,
                amount,
                balance_after: Some(after.available),
                event_id: None,
                trace_id: Some(context.trace.trace_id.clone()),
                at: now,
            };
            unit.put_balances(&[after]).await?;
            unit.post(&[Posting { operation: operation.clone(), entries }]).await?;
            unit.outbox().audit(&entry).await?;
            Ok(operation)
        })
    })
    .await
}

/// A coupon to be issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueCoupon {
    /// To whom.
    pub user: UserId,
    /// What it takes off.
    pub discount: Money,
    /// The least price it can be used for.
    pub min_spend: Money,
    /// From this moment on it can be used no more.
    pub expires_at: DateTime<Utc>,
    /// Why.
    pub reason: Option<Reason>,
}

/// Issues a coupon. Under the same idempotency key of the same operator it is issued once, for ever, and the first one is
/// returned.
pub async fn issue_coupon(
    app: &App,
    context: &CommandContext,
    command: IssueCoupon,
) -> Result<Coupon, UseCaseError> {
    with_own_ids(&app.ids, || issue(app, context, command.clone())).await
}

async fn issue(app: &App, context: &CommandContext, command: IssueCoupon) -> Result<Coupon, UseCaseError> {
    let (giver, operator) = giver(context)?;
    let (tenant, now) = (context.tenant, app.now());
    let id: CouponId = app.ids.next(IdKind::Coupon).await?;
    let key = match &context.idempotency {
        Some(ticket) => OperationKey::by_operator(OperationKind::Issue, command.user, giver, ticket.key()),
        None => OperationKey::issue(id),
    };
    let is_keyed = context.idempotency.is_some();
    let given = (command.user, command.discount.minor());
    let entry = entry(&operator, Asset::Coupon, OperationKind::Issue, given, command.reason.clone(), now);
    let job = Arc::new((key, context.trace.clone(), command, entry));
    with_answer(app, context, Effect::Creates, move |unit, attempt| {
        let job = Arc::clone(&job);
        Box::pin(async move {
            let (key, trace, command, entry) = &*job;
            if let Some(before) = unit.operations_by_key(tenant, std::slice::from_ref(key)).await?.pop() {
                // Without an idempotency key the operation is named after the coupon's id, which proves nothing.
                let is_ours = attempt.may_have_happened() && before.at == now && before.user == command.user;
                if !is_keyed && !is_ours {
                    return Err(IdTaken::refusal(IdKind::Coupon, id.get()));
                }
                let coupon = issued_before(unit, tenant, &before, command).await?;
                found_done(unit.outbox(), attempt, entry).await?;
                return Ok(coupon);
            }
            if attempt.may_have_happened() {
                require_free(unit, IdKind::Coupon, id.get()).await?;
            }
            let coupon = Coupon {
                id,
                tenant,
                user: command.user,
                discount: command.discount,
                min_spend: command.min_spend,
                expires_at: command.expires_at,
                status: CouponStatus::Available,
                order: None,
                version: 1,
                create_time: now,
                update_time: now,
            };
            unit.insert_coupon(&coupon).await?;
            let operation = AssetOperation {
                tenant,
                key: key.clone(),
                asset: Asset::Coupon,
                kind: OperationKind::Issue,
                user: command.user,
                order: None,
                refund: None,
                coupon: Some(id),
                amount: command.discount.minor(),
                balance_after: None,
                event_id: None,
                trace_id: Some(trace.trace_id.clone()),
                at: now,
            };
            unit.post(&[Posting { operation, entries: Vec::new() }]).await?;
            unit.outbox().audit(entry).await?;
            Ok(coupon)
        })
    })
    .await
}

async fn issued_before(
    unit: &mut Work,
    tenant: TenantId,
    before: &AssetOperation,
    command: &IssueCoupon,
) -> Result<Coupon, UseCaseError> {
    let found = match before.coupon {
        Some(id) => unit.coupon_by_id(tenant, id).await?,
        None => None,
    };
    let coupon = found.ok_or(UseCaseError::NotFound { what: "coupon" })?;
    let asked = (command.user, command.discount, command.min_spend, command.expires_at);
    let same = (coupon.user, coupon.discount, coupon.min_spend, coupon.expires_at) == asked;
    if same { Ok(coupon) } else { Err(UseCaseError::KeyTaken) }
}

/// Who it is, if that is somebody with an account, and as an operator.
fn giver(context: &CommandContext) -> Result<(Option<UserId>, Operator), UseCaseError> {
    if context.has(Role::Operator) {
        Ok((context.user(), context.operator()?))
    } else {
        Err(UseCaseError::NotAllowed { what: "the role operator" })
    }
}

/// What the audit log is told: `wallet.deposit`, `points.grant`, `coupon.issue`.
fn entry(
    operator: &Operator,
    asset: Asset,
    kind: OperationKind,
    (user, amount): (UserId, i64),
    reason: Option<Reason>,
    at: DateTime<Utc>,
) -> AuditEntry {
    let name = match kind {
        OperationKind::Deposit => "wallet.deposit",
        OperationKind::Grant => "points.grant",
        OperationKind::Issue => "coupon.issue",
        OperationKind::Freeze
        | OperationKind::Commit
        | OperationKind::Release
        | OperationKind::Revert
        | OperationKind::Earn
        | OperationKind::Unearn
        | OperationKind::Capture
        | OperationKind::Payout => kind.as_str(),
    };
    let selection = asked([("userId", Some(user.get().into())), ("amount", Some(asset.show(amount).into()))]);
    let action = Action { name, selection, reason };
    AuditEntry { matched: 1, changed: 1, ..action.entry(operator, (1, 1), at) }
}
