//! The statements with which a consumer finds the earlier events of an aggregate.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use handover_events::AggregateRef;
use handover_outbox::ports::{ConsumeRecord, StoreError, Unapplied};

use super::outbox_table::OutboxTable;
use crate::dialect::{Dialect, LookUp, padded, placeholders};
use crate::row::Row;
use crate::table::Table as _;
use crate::value::{Value, is_aggregate, values};

/// The maximum number of aggregates in a statement of [`Gate::unapplied_from`].
const MAX_AGGREGATES: usize = 16;

/// Columns of the consume log as [`unapplied`] reads them.
const RECORD: &str = "l.status AS log_status, l.attempts, l.next_retry_time AS log_next_retry_time, l.lease_until, \
                      l.error_message, l.consume_time";

pub(super) fn unapplied(row: &Row) -> Result<Unapplied, StoreError> {
    let log = row.of("event_consume_log", "event_id");
    let record = match log.opt_text("log_status")? {
        None => None,
        Some(_) => Some(ConsumeRecord {
            status: log.named("log_status")?,
            attempts: log.count("attempts")?,
            next_retry_time: log.opt_time("log_next_retry_time")?,
            lease_until: log.opt_time("lease_until")?,
            error_message: log.opt_string("error_message")?,
            consume_time: log.time("consume_time")?,
        }),
    };
    Ok(Unapplied { event: OutboxTable::read(row)?, record })
}

/// The order of the events: by aggregate, then by position.
pub(super) fn in_order(a: &Unapplied, b: &Unapplied) -> Ordering {
    let key = |one: &Unapplied| (one.event.aggregate_seq, one.event.id);
    a.event.aggregate.cmp(&b.event.aggregate).then_with(|| key(a).cmp(&key(b)))
}

/// The order gate of one consumer.
#[derive(Clone, Copy)]
pub(super) struct Gate<'a> {
    pub(super) dialect: &'a dyn Dialect,
    pub(super) consumer: &'a str,
    /// The types that this process applies; not empty.
    pub(super) types: &'a [Value],
    /// The consumer ignores events up to this id, unless it has recorded them.
    pub(super) after_id: i64,
}

impl Gate<'_> {
    /// The events that the consumer has not settled, each with its record. All `ids` are of aggregates of one tenant and
    /// type.
    pub(super) fn unapplied_of(&self, (tenant, kind, ids): (i64, &str, &[i64])) -> (String, Vec<Value>) {
        let (unsettled, of_consumer) = self.unsettled();
        let mut values = values![kind, tenant];
        values.extend(of_consumer);
        self.dialect.look_up(LookUp {
            columns: &format!("{}, {RECORD}", OutboxTable::COLUMNS),
            from: format!("outbox_events o {}", self.dialect.index("idx_aggregate")),
            joined: (join_record(self.dialect), values![self.consumer]),
            column: "o.aggregate_id",
            keys: padded(ids).into_iter().map(Value::from).collect(),
            conditions: format!("o.aggregate_type = ? AND o.tenant_id = ? AND {unsettled}"),
            values,
            ..LookUp::default()
        })
    }

    /// Groups aggregates, each with the lowest position that is searched, for [`Gate::unapplied_from`]: the groups have few
    /// lengths and forms, so that there are few distinct statements.
    pub(super) fn chunks(&self, aggregates: &[(AggregateRef, i64)]) -> Vec<Vec<(AggregateRef, i64)>> {
        let lowest = self.dialect.positions_indexed_from();
        let form = |(aggregate, from): &(AggregateRef, i64)| (aggregate.id.key().is_some(), *from >= lowest);
        let mut forms: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for one in aggregates {
            forms.entry(form(one)).or_default().push(one.clone());
        }
        let mut chunks = Vec::new();
        for mut rest in forms.into_values() {
            while !rest.is_empty() {
                let greatest_power = 1 << rest.len().ilog2();
                let next = rest.split_off(greatest_power.min(MAX_AGGREGATES));
                chunks.push(std::mem::replace(&mut rest, next));
            }
        }
        chunks
    }

    /// The first events, `limit` of each of these aggregates, that the consumer has not settled and whose position is not
    /// lower than the one beside the aggregate.
    pub(super) fn unapplied_from(
        &self,
        aggregates: &[(AggregateRef, i64)],
        limit: u32,
    ) -> (String, Vec<Value>) {
        let (unsettled, of_consumer) = self.unsettled();
        let columns = format!("{}, {RECORD}", OutboxTable::COLUMNS);
        let joined = join_record(self.dialect);
        let mut statements = Vec::with_capacity(aggregates.len());
        let mut values = Vec::new();
        let lowest = self.dialect.positions_indexed_from();
        for (aggregate, from) in aggregates {
            let (index, indexed) = if *from >= lowest {
                ("idx_aggregate_order", format!("AND o.aggregate_seq >= {lowest}"))
            } else {
                ("idx_aggregate", String::new())
            };
            let index = self.dialect.index(index);
            let (of_aggregate, aggregate) = is_aggregate("o.", aggregate);
            statements.push(format!(
                "SELECT {columns} FROM outbox_events o {index} {joined} WHERE {of_aggregate} \
                 AND o.aggregate_seq >= ? {indexed} AND {unsettled} ORDER BY o.aggregate_seq, o.id LIMIT ?"
            ));
            values.extend(values![self.consumer]);
            values.extend(aggregate);
            values.push((*from).into());
            values.extend(of_consumer.iter().cloned());
            values.push(limit.into());
        }
        let sql = match statements.as_slice() {
            [one] => one.clone(),
            several => {
                several.iter().map(|one| self.dialect.nested(one)).collect::<Vec<_>>().join(" UNION ALL ")
            }
        };
        (sql, values)
    }

    /// The condition that the consumer has not settled the event `o` with the record `l`, and its values.
    fn unsettled(&self) -> (String, Vec<Value>) {
        let condition = format!(
            "{of_type} AND (l.status NOT IN ('SUCCESS', 'DEAD') OR (l.status IS NULL AND {id} > ? AND {concerned}))",
            of_type = of_type(self.dialect, self.types.len()),
            id = self.dialect.unindexed("o.id"),
            concerned = concerned(self.dialect),
        );
        let mut values = self.types.to_vec();
        values.extend(values![self.consumer, self.after_id, quoted(self.consumer)]);
        (condition, values)
    }
}

/// The condition that the event `o` has one of so many types, or a type that is registered for the consumer. Its values
/// are the types and the consumer.
pub(super) fn of_type(dialect: &dyn Dialect, types: usize) -> String {
    let event_type = dialect.unindexed("o.event_type");
    let registered = "SELECT t.event_type FROM outbox_consumer_types t WHERE t.consumer = ?";
    format!("({event_type} IN ({}) OR {event_type} IN ({registered}))", placeholders(types))
}

/// The condition that the event `o` concerns a consumer, whose [`quoted`] name is bound.
pub(super) fn concerned(dialect: &dyn Dialect) -> String {
    format!("(o.idle_consumers IS NULL OR {} = 0)", dialect.position_in("o.idle_consumers"))
}

/// The name of a consumer as an element of the JSON array of idle consumers.
pub(super) fn quoted(consumer: &str) -> String {
    serde_json::Value::from(consumer).to_string()
}

/// Joins the consumer's record of the event `o`.
pub(super) fn join_record(dialect: &dyn Dialect) -> String {
    dialect.left_join_one(
        "event_consume_log",
        "l",
        "uk_consumer_event",
        "l.consumer = ? AND l.event_id = o.event_id",
    )
}
