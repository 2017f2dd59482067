//! Ports: interfaces that adapters implement for the outbox. Every MUST is checked by a rule of the shared contract
//! suite.
//!
//! A store begins units of work and views. A unit of work *has* the repositories of the outbox; a function can take
//! only the repository that it needs (`&mut dyn OutboxRepo`).

mod archive;
mod audit;
mod broker;
mod clock;
mod consume;
mod database;
mod dead_letters;
mod endpoint_id;
mod erasure;
mod error;
mod event_group;
mod history;
mod idle_consumers;
mod jobs;
mod leases;
mod monitoring;
mod numbered;
mod operator;
mod outbox;
mod relay_id;
mod store;
mod webhook_capacity;
mod webhook_deliveries;
mod webhook_endpoints;
mod webhook_transport;
mod webhooks;

pub use archive::{
    ArchiveFile, ArchiveQueries, ArchiveQueriesWrapper, ArchiveRepo, ArchiveRepoWrapper, ArchivedEvent,
    EventWithRecords, StoredEvent, StoredRow, StoredValue, UnrecordedFile, UnrecordedState,
};
pub use audit::{AuditEntry, AuditFilter, AuditQueries, AuditQueriesWrapper, AuditRepo, AuditRepoWrapper};
pub use broker::{
    Broker, BrokerError, Confirmed, Delivery, DeliveryTag, Message, Outgoing, PublishOutcome, QueueDepth,
    QueueLoad, Requeue, Route, Subscription,
};
pub use clock::{Clock, RandomSource};
pub use consume::{
    ConsumeCount, ConsumeCounts, ConsumeLog, ConsumeLogWrapper, ConsumeQueries, ConsumeQueriesWrapper,
    ConsumeRecord, Consumed, ConsumedFilter, ConsumerSubscription, Consumption, Expected, RegisteredType,
    Unapplied,
};
pub use database::{DatabaseHealth, DatabaseMonitor};
pub use dead_letters::{
    DeadLetter, DeadLetterFilter, DeadLetterQueries, DeadLetterQueriesWrapper, DeadLetterRepo,
    DeadLetterRepoWrapper, DeadLetterStatus, Decision, MAX_DEAD_LETTER_BODY_BYTES,
    MAX_DEAD_LETTER_NAME_BYTES, MAX_DEAD_LETTER_REASON_BYTES,
};
pub use endpoint_id::{EndpointId, EndpointKey};
pub use erasure::{Erasure, ErasureRepo, ErasureRepoWrapper, MaskedTexts};
pub use error::{Changed, StoreError, SystemFault, SystemFaultKind};
pub use event_group::EventGroup;
pub use history::{HistoryEntry, HistoryQueries, HistoryQueriesWrapper, HistoryRepo, HistoryRepoWrapper};
pub use idle_consumers::IdleConsumers;
pub use jobs::{
    CandidateId, JobQueries, JobQueriesWrapper, JobRecord, JobRepo, JobRepoWrapper, LeaderLease, LeaderRepo,
    LeaderRepoWrapper, Leadership, RunResult,
};
pub use leases::{
    Heartbeat, LeaseQueries, LeaseQueriesWrapper, LeaseRepo, LeaseRepoWrapper, OwnedPartition,
    PartitionLease, older_relay,
};
pub use monitoring::{
    Acknowledgement, AlertRecord, MonitoringQueries, MonitoringQueriesWrapper, MonitoringRepo,
    MonitoringRepoWrapper, ProcessReport, Resolution, StatSample, Thousandths,
};
pub use numbered::Numbered;
pub use operator::{
    Backlog, Blocked, OperatorQueries, OperatorQueriesWrapper, OperatorRepo, OperatorRepoWrapper,
    OutboxCounts, OutboxFilter, Redrive, RedrivenRow, UnreadableRow,
};
pub use outbox::{
    Ahead, AheadQuery, Due, DueQuery, EventMetadata, FailedPublish, NewEvent, OnFailed, OutboxQueries,
    OutboxQueriesWrapper, OutboxRepo, OutboxRepoWrapper, OutboxRow, ReceivedEvent, UnorderedTypes,
};
pub use relay_id::{OlderRelay, RelayId};
pub(crate) use store::Erased;
pub use store::{OutboxStore, OutboxUnit, OutboxView, Store, UnitOfWork, View, outbox_of};
pub use webhook_capacity::WebhookCapacity;
pub use webhook_deliveries::{
    AfterAttempt, AttemptCounts, AttemptOutcome, ClaimId, ClaimedDelivery, DeadDeliveries, DeletedDeliveries,
    DeliveryFilter, DeliveryState, NewWebhookDelivery, OldDeliveries, SettledDelivery, WebhookAttempt,
    WebhookClaim, WebhookCounts, WebhookDelivery,
};
pub use webhook_endpoints::{
    AttemptRate, BodyForm, EndpointHeaders, EndpointHealth, EndpointSecret, EndpointStatus, Sealed,
    WebhookEndpoint,
};
pub use webhook_transport::{
    NewSecret, SecretError, SendError, WebhookRequest, WebhookResponse, WebhookTransport,
};
pub use webhooks::{WebhookQueries, WebhookQueriesWrapper, WebhookRepo, WebhookRepoWrapper};
