// Says: is not a handler for `at_least_once`
// Says: it returns `handover::Result`, or another `Result` whose error implements `std::error::Error`
async fn mail(_: Event<BookLent>) {}

fn build(pool: SqlitePool) {
    let _ = Outbox::builder(pool).consumer("mail", at_least_once(mail));
}
