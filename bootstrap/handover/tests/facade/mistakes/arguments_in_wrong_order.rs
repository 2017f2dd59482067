// Says: is not a handler for `in_transaction`
// Says: expected `async fn(Event<E>, &mut Connection, Data<T>..) -> handover::Result`
// Says: the first argument is `Event<E>`, by value, where `E` has `#[derive(Event)]`
async fn remind(_: &mut SqliteConnection, _: Event<BookLent>) -> handover::Result {
    Ok(())
}

fn build(pool: SqlitePool) {
    let _ = Outbox::builder(pool).consumer("reminders", in_transaction(remind));
}
