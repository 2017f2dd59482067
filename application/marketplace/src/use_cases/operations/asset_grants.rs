//! Use case: an operator grants wallet balance, points or a coupon to a user.

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{
    Account, Asset, AssetOperation, AssetRefusal, Coupon, CouponId, CouponStatus, Money, OperationKey,
    OperationKind, Points, Posting, Purse, UserId,
};

use super::Operations;
use crate::claim::Call;
use crate::context::{CommandContext, Role};
use crate::error::{NotAllowed, UseCaseError};
use crate::ids::{id_in_use, require_unused, with_unused_ids};
use crate::ports::{IdKind, Work};
use handover_outbox::operations::{Action, Operator, Reason, present_fields, record_already_done};
use handover_outbox::ports::{AuditEntry, StoreError};

/// An asset to grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssetGrant {
    /// Amount for the wallet.
    Deposit(Money),
    /// Number of points.
    Grant(Points),
}

impl Operations {
    /// Grants wallet balance or points. With an idempotency key, a user gets a grant of each kind once per operator and
    /// key, without time limit. A repeated call returns the first result; a call with another amount is rejected. Without a
    /// key, every call creates another grant.
    pub async fn grant_asset(
        &self,
        call: impl Into<Call<'_, AssetOperation>>,
        user: UserId,
        grant: AssetGrant,
        reason: Option<Reason>,
    ) -> Result<AssetOperation, UseCaseError<AssetRefusal>> {
        let call = call.into();
        let (user_id, operator) = granting_operator(call.context)?;
        let tenant = call.context.tenant;
        let now = self.tx.now();
        let (purse, kind, amount, from) = match grant {
            AssetGrant::Deposit(amount) => {
                (Purse::Wallet, OperationKind::Deposit, amount.minor(), Account::Gateway)
            }
            AssetGrant::Grant(points) => {
                (Purse::Points, OperationKind::Grant, points.get(), Account::PointsIssued)
            }
        };
        let key = match call.key() {
            Some(key) => OperationKey::by_operator(kind, user, user_id, key),
            None => OperationKey::by_operator(kind, user, user_id, self.ids.event().as_str()),
        };
        let entry = entry(&operator, purse.asset(), kind, (user, amount), reason, now);
        let input = (key, call.context.trace.trace_id.clone(), entry);
        call.run(&self.tx, input, move |unit, (key, trace_id, entry), attempt| {
            Box::pin(async move {
                let users = [(tenant, user)];
                let balance = unit
                    .lock_balances(purse, &users, now)
                    .await?
                    .pop()
                    .ok_or(StoreError::Backend("the store did not return the locked balance".into()))?;
                if let Some(before) = unit.operations_by_key(tenant, std::slice::from_ref(key)).await?.pop() {
                    if (before.user, before.kind, before.amount) != (Some(user), kind, amount) {
                        return Err(UseCaseError::KeyReused);
                    }
                    record_already_done(unit.outbox(), attempt, entry).await?;
                    return Ok(before);
                }
                let (after, entries) = balance.receive(amount, from, now)?;
                let operation = AssetOperation {
                    tenant,
                    key: key.clone(),
                    asset: purse.asset(),
                    kind,
                    user: Some(user),
                    order: None,
                    refund: None,
                    coupon: None,
                    amount,
                    balance_after: Some(after.available),
                    event_id: None,
                    trace_id: Some(trace_id.clone()),
                    at: now,
                };
                unit.put_balances(&[after]).await?;
                unit.post(&[Posting { operation: operation.clone(), entries }]).await?;
                unit.outbox().audit(entry).await?;
                Ok(operation)
            })
        })
        .await
    }
}

/// A coupon to issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueCoupon {
    /// Owner of the coupon.
    pub user: UserId,
    /// Amount that the coupon deducts from the price.
    pub discount: Money,
    /// Minimum price for which the coupon can be used.
    pub min_spend: Money,
    /// Time from which the coupon can no longer be used.
    pub expires_at: DateTime<Utc>,
    pub reason: Option<Reason>,
}

impl IssueCoupon {
    fn coupon(&self, id: CouponId, tenant: TenantId, now: DateTime<Utc>) -> Coupon {
        Coupon {
            id,
            tenant,
            user: self.user,
            discount: self.discount,
            min_spend: self.min_spend,
            expires_at: self.expires_at,
            status: CouponStatus::Available,
            order: None,
            version: 1,
            create_time: now,
            update_time: now,
        }
    }
}

impl Operations {
    /// Issues a coupon. With an idempotency key, a user gets one coupon per operator and key, without time limit. A
    /// repeated call returns the first coupon; a call with other values is rejected.
    pub async fn issue_coupon(
        &self,
        call: impl Into<Call<'_, Coupon>>,
        command: IssueCoupon,
    ) -> Result<Coupon, UseCaseError> {
        let call = call.into();
        with_unused_ids(&self.ids, || self.issue_once(&call, command.clone())).await
    }

    async fn issue_once(
        &self,
        call: &Call<'_, Coupon>,
        command: IssueCoupon,
    ) -> Result<Coupon, UseCaseError> {
        let (user_id, operator) = granting_operator(call.context)?;
        let tenant = call.context.tenant;
        let now = self.tx.now();
        let id: CouponId = self.ids.next(IdKind::Coupon).await?;
        let key = match call.key() {
            Some(key) => OperationKey::by_operator(OperationKind::Issue, command.user, user_id, key),
            None => OperationKey::issue(id),
        };
        let is_keyed = call.key().is_some();
        let user_and_amount = (command.user, command.discount.minor());
        let reason = command.reason.clone();
        let entry = entry(&operator, Asset::Coupon, OperationKind::Issue, user_and_amount, reason, now);
        let input = (key, call.context.trace.clone(), command, entry);
        call.run(&self.tx, input, move |unit, (key, trace, command, entry), attempt| {
            Box::pin(async move {
                if let Some(before) = unit.operations_by_key(tenant, std::slice::from_ref(key)).await?.pop() {
                    // Without an idempotency key, the operation key is derived from the coupon id, which does not prove
                    // that the row belongs to this command.
                    let is_ours =
                        attempt.may_be_committed() && before.at == now && before.user == Some(command.user);
                    if !is_keyed && !is_ours {
                        return Err(id_in_use(IdKind::Coupon, id.get()).into());
                    }
                    let coupon = issued_before(unit, tenant, &before, command).await?;
                    record_already_done(unit.outbox(), attempt, entry).await?;
                    return Ok(coupon);
                }
                if attempt.is_repeated() {
                    require_unused(unit, IdKind::Coupon, id.get()).await?;
                }
                let coupon = command.coupon(id, tenant, now);
                unit.insert_coupon(&coupon).await?;
                let operation = AssetOperation {
                    tenant,
                    key: key.clone(),
                    asset: Asset::Coupon,
                    kind: OperationKind::Issue,
                    user: Some(command.user),
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
    let requested = (command.user, command.discount, command.min_spend, command.expires_at);
    let same = (coupon.user, coupon.discount, coupon.min_spend, coupon.expires_at) == requested;
    if same { Ok(coupon) } else { Err(UseCaseError::KeyReused) }
}

/// Returns the user id of the actor, if it has one, and the actor as an operator.
fn granting_operator(context: &CommandContext) -> Result<(Option<UserId>, Operator), NotAllowed> {
    if context.has(Role::Operator) {
        Ok((context.user(), context.operator()?))
    } else {
        Err(NotAllowed { what: "the role operator" })
    }
}

/// Audit entry of a grant: `wallet.deposit`, `points.grant` or `coupon.issue`.
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
    let selection =
        present_fields([("userId", Some(user.get().into())), ("amount", Some(asset.show(amount).into()))]);
    let action = Action { name, selection, reason };
    AuditEntry { matched: 1, changed: 1, ..action.entry(operator, (1, 1), at) }
}
