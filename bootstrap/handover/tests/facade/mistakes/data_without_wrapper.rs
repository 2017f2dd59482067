// Says: is not a handler for `at_least_once`
// Says: up to three `Data<T>` follow
async fn mail(_: Event<BookLent>, _: String) -> handover::Result {
    Ok(())
}

fn build(pool: SqlitePool) {
    let _ = Outbox::builder(pool).consumer("mail", at_least_once(mail));
}
