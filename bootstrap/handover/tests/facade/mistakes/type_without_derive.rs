// Says: `Plain` is not an event
// Says: derive it: `#[derive(Serialize, Deserialize, handover::Event)] #[event(name = "book.lent", aggregate = "book")]`
#[derive(Serialize, Deserialize)]
struct Plain {
    book: i64,
}

async fn lend(connection: &mut SqliteConnection, outbox: Outbox<Sqlite>) {
    drop(outbox.enqueue(connection, Plain { book: 1 }).await);
}
