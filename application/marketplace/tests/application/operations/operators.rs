//! Who operates, and rows to operate on.

use std::fmt::Debug;

use handover_events::{AggregateRef, EventId, OutboxStatus, TenantId};
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::use_cases::UseCaseError;
use marketplace::{Actor, CommandContext, Role};

use crate::support::{CommitFault, Process, TENANT, World, by, event_id, sample};

/// Commits that go wrong on their way, with the answers that their callers get.
pub(crate) const FAULTS: [&[CommitFault]; 4] = [
    &[CommitFault::AnswerLost],
    &[CommitFault::Lost],
    &[CommitFault::Transient],
    &[CommitFault::Lost, CommitFault::AnswerLost],
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

/// The same as an operator of the outbox.
pub(crate) fn acting(context: &CommandContext) -> Operator {
    context.operator().expect("it has the role")
}

#[test]
fn who_has_no_role_is_no_operator_and_a_role_says_what_an_operator_sees() {
    is_not_allowed(&by(9).operator());
    is_not_allowed(&with_role(Role::Pii).operator());
    is_not_allowed(&CommandContext { actor: Actor::System("a job"), ..by(9) }.operator());
    let sees = |context: CommandContext| {
        let Operator { name, tenant, sees_all, sees_people, .. } = acting(&context);
        (name, tenant, sees_all, sees_people)
    };
    assert_eq!(sees(operator()), ("user:9".into(), TENANT, false, false));
    assert_eq!(sees(platform()), ("user:9".into(), tenant(2), true, false));
    assert_eq!(sees(command_line()), ("command-line:root".into(), TENANT, true, true));
}

/// An operator of another tenant.
pub(crate) fn elsewhere() -> CommandContext {
    CommandContext { tenant: tenant(2), ..operator() }
}

/// Of another tenant than the rows, which does not matter.
pub(crate) fn platform() -> CommandContext {
    CommandContext { tenant: tenant(2), ..with_role(Role::Platform) }
}

pub(crate) fn command_line() -> CommandContext {
    CommandContext { actor: Actor::CommandLine("root".into()), ..by(1) }
}

pub(crate) fn reason() -> Reason {
    Reason::new("the printer has paper again".into()).unwrap()
}

pub(crate) fn ids(names: &[&str]) -> Named<EventId> {
    Named::new(names.iter().map(|name| event_id(name)).collect()).unwrap()
}

pub(crate) fn keys(names: &[&str]) -> Letters {
    keys_at(names, None)
}

pub(crate) fn keys_at(names: &[&str], queue: Option<&str>) -> Letters {
    let keys = Named::new(names.iter().map(|name| (*name).to_owned()).collect()).unwrap();
    Letters::Keys { keys, queue: queue.map(str::to_owned) }
}

/// Every letter that nobody decided about.
pub(crate) fn all_letters() -> Letters {
    Letters::Filter { queue: None, event_type: None, tenant: None }
}

#[track_caller]
pub(crate) fn is_missing<T: Debug, E: Debug>(result: &Result<T, E>) {
    assert!(matches!(result, Err(error) if format!("{error:?}").starts_with("NotFound")), "{result:?}");
}

#[track_caller]
pub(crate) fn is_not_allowed<T: Debug>(result: &Result<T, UseCaseError>) {
    assert!(matches!(result, Err(UseCaseError::NotAllowed { .. })), "{result:?}");
}

impl World {
    /// Commits an event of an order of a tenant.
    pub(crate) async fn happened_in(&self, process: &Process, tenant: TenantId, id: &str, order: i64) {
        let mut event = self.event(id, 1, &sample::changed(order));
        event.aggregate = AggregateRef { tenant, ..event.aggregate };
        process.commit(vec![event]).await;
    }

    /// The relay gives events up.
    pub(crate) async fn fail(&self, names: &[&str]) {
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

    /// What the audit log tells of changes, the first one first.
    pub(crate) async fn audit(&self) -> Vec<AuditEntry> {
        self.calls().await.into_iter().filter(|entry| entry.changed > 0).collect()
    }

    /// The audit log, the first call first.
    pub(crate) async fn calls(&self) -> Vec<AuditEntry> {
        let newest_first =
            self.view().await.outbox_view().audit_page(&AuditFilter::default(), None, 1_000).await.unwrap();
        newest_first.into_iter().rev().map(|entry| entry.effect).collect()
    }

    /// Where a letter stands.
    pub(crate) async fn letter(&self, queue: &str, key: &str) -> DeadLetter {
        self.view().await.outbox_view().dead_letter(queue, key).await.unwrap().unwrap()
    }
}
