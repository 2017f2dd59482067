// Says: its future is `Send`: no `Rc` and no lock guard of std may live across an `.await`
async fn mail(_: Event<BookLent>) -> handover::Result {
    let shared = std::rc::Rc::new(1);
    tokio::task::yield_now().await;
    drop(shared);
    Ok(())
}

fn build(pool: SqlitePool) {
    let _ = Outbox::builder(pool).consumer("mail", at_least_once(mail));
}
