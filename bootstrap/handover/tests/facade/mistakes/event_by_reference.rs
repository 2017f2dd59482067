// Says: is not a handler for `at_least_once`
// Says: the first argument is `Event<E>`, by value, where `E` has `#[derive(Event)]`
async fn mail(_: &Event<BookLent>) -> handover::Result {
    Ok(())
}

fn build(pool: SqlitePool) {
    let _ = Outbox::builder(pool).consumer("mail", at_least_once(mail));
}
