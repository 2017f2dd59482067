//! Orders with assets and every kind of end, while the program is killed again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use handover_tests::books::Books;
use handover_tests::client::{Answer, Api, Lost, rand_like};
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::Server;
use serde_json::{Value, json};

use super::purses::money;
use super::shop::{OPERATOR, SELLER};

const CLIENTS: i64 = 6;
const FIRST_BUYER: i64 = 30_001;

/// Kills come so often, and whenever so many more orders were begun: a fast machine is not done before the first.
const PAUSE: Duration = Duration::from_millis(1_500);
const ORDERS: i64 = 20;

fn roll(sides: u64) -> u64 {
    rand_like() % sides
}

/// Asks until there is an answer that is not about a dependency that is away.
async fn insist(mut ask: impl AsyncFnMut() -> Result<Answer, Lost>) -> Answer {
    loop {
        match ask().await {
            Ok(answer) if answer.outcome().0 != 503 => return answer,
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// One order, from the purse to some end of it.
async fn one(api: &Api, buyer: i64) {
    let product = insist(async || api.list_product(SELLER, "Desk lamp").await).await.id("productId");
    let mut body = json!({"productId": product});
    if roll(3) > 0 {
        body["walletAmount"] = money(1 + i64::try_from(roll(4_000)).unwrap());
    }
    if roll(3) > 0 {
        body["points"] = json!(1 + roll(200));
    }
    if roll(4) == 0 {
        let coupon = json!({
            "userId": buyer, "discount": 5, "minSpend": 1, "expiresAt": "2099-01-01T00:00:00Z",
        });
        let coupon = insist(async || api.post(OPERATOR, "/api/v1/ops/coupons", coupon.clone()).await).await;
        body["couponId"] = json!(coupon.id("couponId"));
    }
    // An order whose answer was lost may be there: it runs into its deadline.
    let Ok(placed) = api.post(buyer, "/api/v1/orders", body).await else { return };
    if !placed.done() {
        return;
    }
    let order = placed.id("orderId");
    if roll(8) == 0 {
        return;
    }
    if roll(6) == 0 {
        insist(async || api.cancel(buyer, order).await).await;
    }
    let payment = insist(async || api.start_payment(buyer, order).await).await;
    if !payment.done() {
        return;
    }
    let payment: Value = payment.value();
    let (id, amount) = (payment["paymentId"].as_i64().unwrap(), payment["amount"].clone());
    if payment["status"] == "PROCESSING" {
        let result = if roll(6) == 0 { "FAILED" } else { "SUCCESS" };
        insist(async || api.payment_of_reported(id, &amount, result).await).await;
    }
    if roll(3) == 0 {
        let path = format!("/api/v1/orders/{order}/refunds");
        let asked = json!({"reason": "too small"});
        insist(async || api.post(buyer, &path, asked.clone()).await).await;
    } else if roll(2) == 0 {
        insist(async || api.ship(SELLER, order).await).await;
    }
}

/// The sum of each kind of money, at one moment.
async fn sums(books: &Books) -> Option<Vec<String>> {
    let sql = "SELECT coalesce(sum(CASE WHEN account IN ('wallet', 'wallet_hold', 'platform', 'gateway') THEN amount ELSE 0 END), 0),
        coalesce(sum(CASE WHEN account IN ('wallet', 'wallet_hold', 'platform', 'gateway') THEN 0 ELSE amount END), 0)
        FROM ledger_entries";
    let row = books.table(sql).await.ok()?.into_iter().next()?;
    row.into_iter().collect()
}

async fn nothing_is_lost_or_doubled_of_orders_with_assets_while_the_program_is_killed(pair: Pair) {
    let orders = if handover_tests::long() { 1_000 } else { 100 };
    let deployment = Deployment::start(pair).await;
    let launch = deployment
        .launch()
        .set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.15")
        .set("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "500ms")
        .set("HANDOVER_ASSET__LOCK_TIMEOUT_MINUTES", "0.5")
        .set("HANDOVER_ASSET__REAPER_INTERVAL", "1s")
        .set("HANDOVER_CONSISTENCY__INTERVAL", "2s")
        .set("HANDOVER_GATEWAY__SANDBOX_DELAY", "100ms")
        .set("HANDOVER_GATEWAY__RETRY_BASE", "500ms");
    let first: Server = launch.start().unwrap();
    let (api, books) = (Api::of(&first), deployment.books().await);
    api.sign_in(FIRST_BUYER..FIRST_BUYER + CLIENTS);
    api.token(SELLER);
    api.token(OPERATOR);
    for buyer in FIRST_BUYER..FIRST_BUYER + CLIENTS {
        let path = format!("/api/v1/ops/wallets/{buyer}/deposits");
        api.post(OPERATOR, &path, json!({"amount": 2_000})).await.unwrap().value();
        let path = format!("/api/v1/ops/points/{buyer}/grants");
        api.post(OPERATOR, &path, json!({"points": 10_000})).await.unwrap().value();
    }
    let mut server = Some(first);
    let (left, done) = (AtomicI64::new(orders), Arc::new(AtomicBool::new(false)));
    let clients = join_all((0..CLIENTS).map(async |client| {
        while left.fetch_sub(1, Ordering::SeqCst) > 0 {
            one(&api, FIRST_BUYER + client).await;
        }
    }));
    let samples = {
        let (books, done) = (deployment.books().await, Arc::clone(&done));
        tokio::spawn(async move {
            let mut samples = 0;
            while !done.load(Ordering::SeqCst) {
                if let Some(sums) = sums(&books).await {
                    assert!(sums.iter().all(|sum| sum.parse::<f64>() == Ok(0.0)), "{sums:?}");
                    samples += 1;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            samples
        })
    };
    let mut kills = 0;
    let killer = async {
        while left.load(Ordering::SeqCst) > 0 {
            let next = left.load(Ordering::SeqCst) - ORDERS;
            let begun = async {
                while left.load(Ordering::SeqCst) > next {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            // Whichever comes first.
            let _ = tokio::time::timeout(PAUSE, begun).await;
            server.take().unwrap().kill().unwrap();
            kills += 1;
            let again = launch.start().unwrap();
            api.moved_to(&again);
            server = Some(again);
        }
    };
    tokio::join!(clients, killer);
    books.wait_until_quiet(Duration::from_secs(90)).await;
    let processing = "SELECT count(*) FROM refunds WHERE status = 'PROCESSING'";
    handover_tests::process::eventually(Duration::from_secs(60), async || {
        match books.count(processing).await? {
            0 => Ok(()),
            open => Err(format!("{open} refunds are open").into()),
        }
    })
    .await;
    books.wait_until_quiet(Duration::from_secs(90)).await;
    done.store(true, Ordering::SeqCst);
    let samples = samples.await.unwrap();
    assert_eq!(books.number("SELECT count(*) FROM asset_holds WHERE status = 'FROZEN'").await, 0);
    assert_eq!(books.broken().await, Vec::<String>::new());
    let told = api.get(OPERATOR, "/api/v1/ops/reconciliation").await.unwrap().value();
    assert_eq!(told["findings"], json!([]), "{told}");
    let ends =
        books.table("SELECT status, count(*) FROM orders GROUP BY status ORDER BY status").await.unwrap();
    println!("{pair:?}: {kills} kills, {samples} samples, {ends:?}");
    assert!(kills >= 2 && samples > 10, "{kills} kills, {samples} samples");
}

handover_tests::on_pairs!([nothing_is_lost_or_doubled_of_orders_with_assets_while_the_program_is_killed]:
    sqlite_and_database SqliteAlone, mariadb_and_rabbitmq MariaDbRabbitMq, postgres_and_rabbitmq PostgresRabbitMq);
