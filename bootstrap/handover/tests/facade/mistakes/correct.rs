// Compiles.
async fn remind(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    sqlx::query("SELECT 1").bind(&event.reader).execute(connection).await?;
    Ok(())
}

async fn mail(_: Event<BookLent>, _: Data<String>, _: Data<u64>) -> Result<(), std::io::Error> {
    Ok(())
}

async fn lend(pool: SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
    let outbox = Outbox::builder(pool.clone())
        .consumer("reminders", in_transaction(remind))
        .consumer("mail", at_least_once(mail).unordered())
        .consumer("log", at_least_once(async |event: Event<BookLent>| Ok::<_, sqlx::Error>(event.reader.clone())))
        .build()?;
    let mut tx = pool.begin().await?;
    outbox.enqueue(&mut tx, BookLent { book: 1, reader: String::new() }).await?;
    Ok(tx.commit().await?)
}
