// Says: is not a handler for `in_transaction`
// Says: a function without a connection belongs in `at_least_once`
async fn mail(_: Event<BookLent>, _: Data<String>) -> handover::Result {
    Ok(())
}

fn build(pool: SqlitePool) {
    let _ = Outbox::builder(pool).consumer("mail", in_transaction(mail));
}
