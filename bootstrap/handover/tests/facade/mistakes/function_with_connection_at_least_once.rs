// Says: is not a handler for `at_least_once`
// Says: a function that writes to the database with a connection belongs in `in_transaction`
async fn remind(_: Event<BookLent>, _: &mut SqliteConnection) -> handover::Result {
    Ok(())
}

fn build(pool: SqlitePool) {
    let _ = Outbox::builder(pool).consumer("reminders", at_least_once(remind));
}
