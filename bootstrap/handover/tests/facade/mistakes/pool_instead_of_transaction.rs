// Says: types differ in mutability
// Says: expected mutable reference `&mut SqliteConnection`
async fn lend(pool: SqlitePool, outbox: Outbox<Sqlite>, event: BookLent) {
    drop(outbox.enqueue(&pool, event).await);
}
