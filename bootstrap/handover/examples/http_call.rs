//! An effect outside of the database: at least once, with the event id as idempotency key.
//!
//! The mail server fails twice. You see three attempts with the same key, and one mail.

mod common;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use handover::{Data, Event, Outbox, at_least_once};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(name = "ticket.sold", aggregate = "ticket")]
struct TicketSold {
    #[event(key)]
    ticket: i64,
    address: String,
}

/// Stands for the client of a mail server that ignores a repeated key.
#[derive(Default)]
struct Mailer {
    attempts: Mutex<u32>,
    sent: Mutex<BTreeSet<String>>,
}

impl Mailer {
    fn send(&self, key: &str, address: &str) -> Result<(), io::Error> {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        *attempts += 1;
        println!("attempt {attempts} for {address}");
        if *attempts < 3 {
            return Err(io::Error::other("the mail server is busy"));
        }
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
        Ok(())
    }
}

async fn mail(event: Event<TicketSold>, mailer: Data<Mailer>) -> Result<(), io::Error> {
    mailer.send(event.event_id(), &event.address)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (pool, _folder) = common::database("").await?;
    let outbox = Outbox::builder(pool.clone())
        .data(Mailer::default())
        .consumer("mail", at_least_once(mail))
        .build()?;
    outbox.migrate().await?;
    let running = outbox.start().await?;

    let mut tx = pool.begin().await?;
    outbox.enqueue(&mut tx, TicketSold { ticket: 7, address: "ann@example.org".to_owned() }).await?;
    tx.commit().await?;

    let applied = "SELECT count(*) FROM event_consume_log WHERE status = 'SUCCESS'";
    common::wait_for(&pool, 1, applied).await?;
    println!("the event is applied");
    running.stop(Duration::from_secs(10)).await?;
    Ok(())
}
