// Says: is not a consumer of an outbox on `Sqlite`
// Says: expected `in_transaction(..)` or `at_least_once(..)`
async fn mail(_: Event<BookLent>) -> handover::Result {
    Ok(())
}

fn build(pool: SqlitePool) {
    let _ = Outbox::builder(pool).consumer("mail", mail);
}
