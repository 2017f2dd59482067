//! Registration of the event types that each consumer applies in this process.
//!
//! In a rolling deployment, processes of two versions share the queues. A process that receives an event of a type that
//! it does not know leaves the event to the processes that have registered the type.
//!
//! **Invariant:** a process registers its types before it declares the bindings of its queues and before it writes an
//! event, so that no other process receives an event of an unregistered type.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tracing::{info, warn};

use crate::lease_watch::LeaseWatch;
use crate::outbox::Outbox;
use crate::ports::{RegisteredType, StoreError};
use crate::transaction::with_tx;

/// Length of the lease of a registration in milliseconds; renewed after a third of it. Events of the type wait for this
/// time after the last process that knows it has ended: longer than a restart, so that a restart keeps their order.
const LEASE_MS: u32 = 120_000;

/// Pause after a failure, so that all processes have renewed soon after an outage.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Key of a registration: consumer and event type.
type Key = (String, String);

/// Registers the event types of the consumers of this process, or renews their leases. Returns the registrations of all
/// processes, and the current time of the database clock.
pub(crate) async fn register(outbox: &Outbox) -> Result<(Vec<RegisteredType>, DateTime<Utc>), StoreError> {
    with_tx(&outbox.tx, Arc::clone(&outbox.consumers), |unit, consumers, _| {
        Box::pin(async move {
            for consumer in consumers.iter() {
                let types: Vec<&str> = consumer.event_types.iter().map(String::as_str).collect();
                unit.outbox().register_types(&consumer.consumer, &types, LEASE_MS).await?;
            }
            Ok((unit.outbox().registered_types().await?, unit.outbox().database_now().await?))
        })
    })
    .await
}

/// Renews the registrations of this process until it stops, and removes those of processes that have ended.
pub(crate) async fn keep_registered(outbox: Outbox) {
    let lease = Duration::from_millis(u64::from(LEASE_MS));
    let mut watch = LeaseWatch::new(lease);
    let mut has_failed = false;
    loop {
        let renewed = renew(&outbox, &mut watch, has_failed).await;
        if let (Err(error), false) = (&renewed, has_failed) {
            warn!(code = "event-types.not-renewed", %error, "cannot renew the registration of event types; retrying every {RETRY_PAUSE:?}");
        }
        if let (Ok(()), true) = (&renewed, has_failed) {
            info!(code = "event-types.renewed", "the registration of event types is renewed again");
        }
        has_failed = renewed.is_err();
        tokio::select! {
            biased;
            () = outbox.stopping().cancelled() => return,
            () = outbox.sleep(if has_failed { RETRY_PAUSE } else { lease / 3 }) => {}
        }
    }
}

/// After a failure, the other processes may have been unable to renew, too, so that no registration is removed before the next
/// renewal.
async fn renew(outbox: &Outbox, watch: &mut LeaseWatch<Key>, has_failed: bool) -> Result<(), StoreError> {
    let (registered, now) = register(outbox).await?;
    if has_failed {
        return Ok(());
    }
    let key = |it: &RegisteredType| (it.consumer.clone(), it.event_type.clone());
    let leases: Vec<(Key, DateTime<Utc>)> = registered.iter().map(|it| (key(it), it.alive_until)).collect();
    let ended_keys = watch.ended(now, &leases);
    let ended: Arc<[RegisteredType]> =
        registered.into_iter().filter(|it| ended_keys.contains(&key(it))).collect();
    if ended.is_empty() {
        return Ok(());
    }
    with_tx(&outbox.tx, Arc::clone(&ended), |unit, ended, _| {
        Box::pin(async move { unit.outbox().unregister_types(ended).await })
    })
    .await?;
    for RegisteredType { consumer, event_type, .. } in ended.iter() {
        info!(code = "event-types.ended", %consumer, eventType = %event_type, "[{consumer}] no running process applies events of this type any more");
    }
    Ok(())
}
