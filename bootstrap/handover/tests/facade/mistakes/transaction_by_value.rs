// Says: expected `&mut SqliteConnection`, found `Transaction<'_, Sqlite>`
// Says: consider mutably borrowing here
async fn lend(pool: SqlitePool, outbox: Outbox<Sqlite>, event: BookLent) {
    let mut tx = pool.begin().await.unwrap();
    drop(outbox.enqueue(tx, event).await);
}
