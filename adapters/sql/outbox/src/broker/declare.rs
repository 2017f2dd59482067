//! Declaration of queues and bindings. Existing queues and bindings are kept; a queue that exists with other arguments
//! is rejected.

use std::collections::BTreeSet;

use handover_outbox::ports::{BrokerError, StoreError};
use handover_outbox::topology::{QueueSpec, Topology};

use super::inner::{Inner, broker_error};
use super::routes::{QueueArguments, QueueTable};
use crate::session::Session;
use crate::table::Table as _;
use crate::value::values;

impl Inner {
    pub(super) async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        if let Some((queue, exchange)) = receiving(topology) {
            return Err(BrokerError::Refused {
                what: format!(
                    "queue {queue} receives from the exchange {exchange} of another outbox, and the tables of a database are the \
                     broker of its own outbox only; use RabbitMQ"
                ),
            });
        }
        let mut session = self.store.transaction().await.map_err(broker_error)?;
        for queue in &topology.queues {
            declare_queue(&mut session, queue).await?;
        }
        session.commit_now().await.map_err(broker_error)?;
        self.read_routes().await.map_err(broker_error)?;
        Ok(())
    }
}

/// A queue that receives from the exchange of another outbox.
fn receiving(topology: &Topology) -> Option<(&str, &str)> {
    topology.queues.iter().find_map(|spec| Some((spec.name.as_str(), spec.receives_from.as_deref()?)))
}

async fn declare_queue(session: &mut Session, queue: &QueueSpec) -> Result<(), BrokerError> {
    let requested = QueueArguments {
        ttl_ms: queue.ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)),
        dead_letter_key: queue.dead_letter_key.clone(),
    };
    match existing(session, &queue.name).await.map_err(broker_error)? {
        Some(found) if found == requested => {}
        Some(found) => {
            return Err(BrokerError::Refused { what: difference(&queue.name, &found, &requested) });
        }
        None => {
            let row = QueueTable::values((&queue.name, &requested));
            session.insert_into::<QueueTable>(row, "").await.map_err(broker_error)?;
        }
    }
    let bound = bindings(session, &queue.name).await.map_err(broker_error)?;
    let missing: BTreeSet<&String> =
        queue.bindings.iter().filter(|pattern| !bound.contains(*pattern)).collect();
    let rows = missing.into_iter().flat_map(|pattern| values![&queue.name, pattern]).collect();
    session
        .insert("INSERT INTO outbox_broker_bindings (queue, pattern)", 2, rows, "")
        .await
        .map_err(broker_error)?;
    Ok(())
}

async fn existing(session: &mut Session, queue: &str) -> Result<Option<QueueArguments>, StoreError> {
    let sql = format!("SELECT {} FROM outbox_broker_queues WHERE queue = ?", QueueTable::COLUMNS);
    session.fetch_one(&sql, values![queue]).await?.as_ref().map(QueueTable::read).transpose()
}

async fn bindings(session: &mut Session, queue: &str) -> Result<BTreeSet<String>, StoreError> {
    let rows = session
        .fetch("SELECT queue, pattern FROM outbox_broker_bindings WHERE queue = ?", values![queue])
        .await?;
    rows.iter().map(|row| row.of("outbox_broker_bindings", "queue").string("pattern")).collect()
}

fn difference(queue: &str, found: &QueueArguments, requested: &QueueArguments) -> String {
    let ttl = |ttl: Option<i64>| ttl.map_or_else(|| "none".to_owned(), |ttl| format!("{ttl} ms"));
    let key = |key: &Option<String>| key.clone().unwrap_or_else(|| "none".to_owned());
    let mut differences = Vec::new();
    if found.ttl_ms != requested.ttl_ms {
        differences.push(format!("the TTL is {}, requested is {}", ttl(found.ttl_ms), ttl(requested.ttl_ms)));
    }
    if found.dead_letter_key != requested.dead_letter_key {
        let found = key(&found.dead_letter_key);
        let requested = key(&requested.dead_letter_key);
        differences.push(format!("the dead-letter key is {found}, requested is {requested}"));
    }
    format!(
        "queue {queue} exists with other arguments: {}; wait until it is empty and delete its row in \
         outbox_broker_queues, or configure the existing arguments again",
        differences.join("; ")
    )
}
