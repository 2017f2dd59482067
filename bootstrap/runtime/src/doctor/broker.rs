//! Checks of the broker: reachable, queues declared; for RabbitMQ also the policies of the queues, which only the
//! management API shows.

use std::sync::Arc;
use std::time::Duration;

use handover_outbox::ports::{Broker, BrokerError};
use handover_rabbitmq::{LimitingPolicy, ManagementError, RabbitSettings, limiting_policies};
use handover_sql::DatabaseBroker;

use super::report::Check;
use super::subject::Subject;
use crate::brokers::rabbit_for_command;
use crate::failure::Failure;
use crate::settings::BrokerChoice;
use crate::stores::AttachedDatabase;

const BROKER: &str = "broker";
const MANAGEMENT: &str = "management";
const POLICIES: &str = "policies";
/// A broker that does not answer within this time counts as unavailable.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Checks the broker. `database` is `None` if the database cannot be read.
pub(super) async fn checks(subject: &Subject<'_>, database: Option<&AttachedDatabase>) -> Vec<Check> {
    match (subject.broker, database) {
        (BrokerChoice::Memory, _) => vec![Check::warn(
            BROKER,
            "memory: the queues are in the memory of the serving process".to_owned(),
            "no other process can access them, and each start publishes unsettled events again",
            "set broker.url = \"database:\" for anything but tests",
        )],
        // The check of the database reports the problem.
        (BrokerChoice::Database, None) => Vec::new(),
        (BrokerChoice::Database, Some(database)) => {
            let broker = Arc::new(DatabaseBroker::new(&database.store));
            vec![queues(subject, broker, "the broker in the database").await]
        }
        (BrokerChoice::Rabbit(settings), _) => {
            let broker = rabbit_for_command(settings, &subject.topology);
            let place = settings.address();
            let mut checks = vec![queues(subject, broker, &place).await.failed_at(&place)];
            checks.extend(policies(subject, settings).await);
            checks
        }
    }
}

async fn queues(subject: &Subject<'_>, broker: Arc<dyn Broker>, place: &str) -> Check {
    let answer = tokio::time::timeout(TIMEOUT, broker.queues()).await;
    let queues = match answer.unwrap_or_else(|late| Err(BrokerError::Unreachable(Box::new(late)))) {
        Ok(queues) => queues,
        Err(error) => return Check::failed(BROKER, &Failure::from(error)),
    };
    let topology = &subject.topology;
    let is_available = |name: &str| queues.iter().any(|queue| queue.name == name);
    let missing: Vec<&str> =
        topology.queues.iter().map(|queue| queue.name.as_str()).filter(|name| !is_available(name)).collect();
    match missing.as_slice() {
        [] => Check::ok(BROKER, format!("{place} is reachable and has all {} queues", topology.queues.len())),
        _ if queues.is_empty() => {
            Check::ok(BROKER, format!("{place} is reachable; the service declares its queues when it starts"))
        }
        missing => Check::warn(
            BROKER,
            format!("{place} is reachable, but has no {}", missing.join(", ")),
            &format!(
                "a process of another version{} declared the existing queues",
                subject.queues_depend_on.map_or_else(String::new, |key| format!(", or with another {key},"))
            ),
            "no action is needed if the service starts with this configuration: it declares the missing queues",
        ),
    }
}

/// Checks the policies of the queues, through the management API. handover does not need it otherwise.
async fn policies(subject: &Subject<'_>, settings: &RabbitSettings) -> Vec<Check> {
    const NOT_CHECKED: &str = "without it, policies of an administrator that remove messages from the queues are not \
                               detected; handover does not need it otherwise, but people can see queues and connections \
                               with it";
    let not_checked = |error: &ManagementError, remedy: &str| {
        vec![Check::warn(MANAGEMENT, error.to_string(), NOT_CHECKED, remedy)]
    };
    match limiting_policies(settings, &subject.topology).await {
        Ok(limits) if limits.is_empty() => {
            vec![Check::ok(POLICIES, "no policy limits the queues".to_owned())]
        }
        Ok(limits) => limits.iter().map(limited).collect(),
        Err(error @ ManagementError::Unreachable { .. }) => not_checked(
            &error,
            "no action is needed; to enable the plugin: rabbitmq-plugins enable rabbitmq_management; if it has another \
             address, set rabbitmq.management-url",
        ),
        Err(error @ ManagementError::Denied { .. }) => not_checked(
            &error,
            "no action is needed; to allow the user to read policies: rabbitmqctl set_user_tags USER management",
        ),
        Err(error @ ManagementError::Unusable { .. }) => {
            not_checked(&error, "set rabbitmq.management-url to the address of the management plugin")
        }
    }
}

fn limited(limit: &LimitingPolicy) -> Check {
    let LimitingPolicy { policy, setting, value, effect, queues } = limit;
    Check::warn(
        POLICIES,
        format!("the policy {policy} sets {setting} = {value} on {}", queues.join(", ")),
        effect,
        "change the pattern of the policy so that it does not match these queues (rabbitmqctl list_policies, \
         list_operator_policies), or remove the setting; dead letters that were not replayed: handover dlq list",
    )
}
