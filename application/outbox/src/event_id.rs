//! Generates event ids and other UUIDs. A caller generates an id before the first attempt at its unit of work, so that a retry uses the
//! same id.

use handover_events::EventId;
use uuid::Uuid;

use crate::transaction::Transactor;

/// A new event id: UUIDv7 (RFC 9562) from the clock's current time and random bits.
pub fn event_id<U: ?Sized, V: ?Sized>(tx: &Transactor<U, V>) -> EventId {
    uuid_v7(tx).into()
}

/// A new UUIDv7 (RFC 9562) from the clock's current time and random bits.
pub fn uuid_v7<U: ?Sized, V: ?Sized>(tx: &Transactor<U, V>) -> Uuid {
    let millis = u64::try_from(tx.clock.now().timestamp_millis()).unwrap_or(0);
    let mut random = [0u8; 10];
    random[..8].copy_from_slice(&tx.random.next().to_le_bytes());
    random[8..].copy_from_slice(&tx.random.next().to_le_bytes()[..2]);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
}
