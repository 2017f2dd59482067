//! Operators, selections and sample rows for the tests of operations.

use std::fmt::Debug;

use handover_events::{AggregateRef, EventId, OutboxStatus, TenantId};
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::use_cases::NotAllowed;
use marketplace::{Actor, CommandContext, Role};

use crate::support::{CommitFault, Process, TENANT, World, by, event_id, sample};

/// Commit faults under which an action MUST happen exactly once.
pub(crate) const FAULTS: [&[CommitFault]; 4] = [
    &[CommitFault::ReplyLost],
    &[CommitFault::Lost],
    &[CommitFault::Transient],
    &[CommitFault::Lost, CommitFault::ReplyLost],
];

pub(crate) fn tenant(id: i64) -> TenantId {
    id.try_into().unwrap()
}

pub(crate) fn with_role(role: Role) -> CommandContext {
    CommandContext { actor: Actor::User { id: 9.try_into().unwrap(), roles: vec![role] }, ..by(9) }
}

pub(crate) fn operator() -> CommandContext {
    with_role(Role::Operator)
}

/// Returns the caller of a context as an operator of the outbox.
pub(crate) fn acting(context: &CommandContext) -> Operator {
    context.operator().expect("the actor has an operator role")
}

#[test]
fn operator_access_requires_a_role_and_roles_determine_visibility() {
    assert_not_allowed(&by(9).operator());
    assert_not_allowed(&with_role(Role::Pii).operator());
    assert_not_allowed(&CommandContext { actor: Actor::System("a job"), ..by(9) }.operator());
    let visibility = |context: CommandContext| {
        let Operator { name, tenant, sees_all_tenants, sees_personal_data, .. } = acting(&context);
        (name, tenant, sees_all_tenants, sees_personal_data)
    };
    assert_eq!(visibility(operator()), ("user:9".into(), TENANT, false, false));
    assert_eq!(visibility(platform()), ("user:9".into(), tenant(2), true, false));
    assert_eq!(visibility(command_line()), ("command-line:root".into(), TENANT, true, true));
}

/// An operator of another tenant.
pub(crate) fn other_tenant_operator() -> CommandContext {
    CommandContext { tenant: tenant(2), ..operator() }
}

/// A platform operator. Its tenant differs from that of the rows, but the role covers all tenants.
pub(crate) fn platform() -> CommandContext {
    CommandContext { tenant: tenant(2), ..with_role(Role::Platform) }
}

pub(crate) fn command_line() -> CommandContext {
    CommandContext { actor: Actor::CommandLine("root".into()), ..by(1) }
}

pub(crate) fn reason() -> Reason {
    Reason::new("the service is available again".into()).unwrap()
}

pub(crate) fn ids(names: &[&str]) -> Named<EventId> {
    Named::new(names.iter().map(|name| event_id(name)).collect()).unwrap()
}

pub(crate) fn keys(names: &[&str]) -> DeadLetterSelection {
    keys_at(names, None)
}

pub(crate) fn keys_at(names: &[&str], queue: Option<&str>) -> DeadLetterSelection {
    let keys = Named::new(names.iter().map(|name| (*name).to_owned()).collect()).unwrap();
    DeadLetterSelection::Keys { keys, queue: queue.map(str::to_owned) }
}

/// All undecided dead letters.
pub(crate) fn all_dead_letters() -> DeadLetterSelection {
    DeadLetterSelection::Filter { queue: None, event_type: None, tenant: None, from: None, to: None }
}

#[track_caller]
pub(crate) fn assert_not_found<T: Debug, E: Debug>(result: &Result<T, E>) {
    assert!(matches!(result, Err(error) if format!("{error:?}").starts_with("NotFound")), "{result:?}");
}

#[track_caller]
pub(crate) fn assert_not_allowed<T: Debug>(result: &Result<T, NotAllowed>) {
    assert_eq!(result.as_ref().err(), Some(&NotAllowed { what: "the role operator" }));
}

impl World {
    /// Commits an event of an order of a tenant.
    pub(crate) async fn commit_event_in(&self, process: &Process, tenant: TenantId, id: &str, order: i64) {
        let mut event = self.event(id, 1, &sample::changed(order));
        event.aggregate = AggregateRef { tenant, ..event.aggregate };
        process.commit(vec![event]).await;
    }

    /// Marks events FAILED, as the relay does after their last attempt.
    pub(crate) async fn mark_failed(&self, names: &[&str]) {
        let failed: Vec<FailedPublish> = names
            .iter()
            .map(|name| FailedPublish {
                event_id: event_id(name),
                status: OutboxStatus::Failed,
                retry_count: 4,
                next_retry_time: None,
                error: "消息发送失败: NO_ROUTE".into(),
            })
            .collect();
        let mut unit = self.store.begin().await.unwrap();
        assert_eq!(unit.outbox().mark_failed(&failed, self.now()).await.unwrap(), names.len() as u64);
        unit.commit().await.unwrap();
    }

    /// Audit entries of calls that changed rows, oldest first.
    pub(crate) async fn audited_changes(&self) -> Vec<AuditEntry> {
        self.audit_entries().await.into_iter().filter(|entry| entry.changed > 0).collect()
    }

    /// All audit entries, oldest first.
    pub(crate) async fn audit_entries(&self) -> Vec<AuditEntry> {
        let newest_first =
            self.view().await.outbox_view().audit_page(&AuditFilter::default(), None, 1_000).await.unwrap();
        newest_first.into_iter().rev().map(|entry| entry.effect).collect()
    }

    /// The dead letter with this key.
    pub(crate) async fn dead_letter(&self, queue: &str, key: &str) -> DeadLetter {
        self.view().await.outbox_view().dead_letter(queue, key).await.unwrap().unwrap()
    }
}
