//! Outages under load: the shipped program on MariaDB or PostgreSQL with RabbitMQ, while servers and processes are killed
//! or stopped, lines lose what they carry, messages cannot be sent, and clients hang up. What was acknowledged must hold,
//! and every event must take effect exactly once and in order.
//!
//! `HANDOVER_LONG=1` kills, hangs up and queues ten times as much.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a broken promise panics with what it saw, and real processes run on real time"
)]

mod backlog;
mod hang_ups;
mod kills;
mod lines;
mod stopped;
mod unsendable;

use chrono::{DateTime, Utc};
use handover_tests::long;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A tenth of so many, at least one, unless there is time for all.
fn share_of(all: usize) -> usize {
    if long() { all } else { all.div_ceil(10) }
}

/// A turn. Two at a time: they mostly wait for leases and servers, but more of them would measure the machine.
async fn turn() -> SemaphorePermit<'static> {
    static MACHINE: Semaphore = Semaphore::const_new(2);
    MACHINE.acquire().await.unwrap()
}

/// A time as every engine reads it.
fn literal(time: DateTime<Utc>) -> String {
    time.format("'%Y-%m-%d %H:%M:%S%.6f'").to_string()
}
