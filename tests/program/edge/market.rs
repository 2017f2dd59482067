//! The running program that the requests are sent to, with one object of each kind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use handover_tests::client::{Api, Caller};
use handover_tests::process::{Server, fresh};
use handover_tests::snapshot::DatabaseSnapshot;
use serde_json::json;
use tempfile::TempDir;

use super::case::Case;
use super::wire::Request;

/// The header that orders and payments require.
const X_IDEMPOTENCY_KEY: &str = "X-Idempotency-Key";

pub(crate) const SELLER: i64 = 1;
pub(crate) const BUYER: i64 = 2;
/// A user without any order.
pub(crate) const OTHER_USER: i64 = 3;
pub(crate) const OPERATOR: Caller = Caller::of_tenant(1, 9).operator();
/// Users with the ids of seller and buyer, and an operator, in another tenant.
pub(crate) const FOREIGN_SELLER: Caller = Caller::of_tenant(2, SELLER);
pub(crate) const FOREIGN_BUYER: Caller = Caller::of_tenant(2, BUYER);
pub(crate) const FOREIGN_OPERATOR: Caller = Caller::of_tenant(2, 9).operator();

/// An event that can be redriven, and its order, which can be released.
pub(crate) const FAILED_EVENT: &str = "failed-event";
pub(crate) const BLOCKED_ORDER: i64 = 900_001;
/// A refund that waits for the gateway's result and is not requested again.
pub(crate) const REFUND: i64 = 900_100;
/// The gateway report of the first payment, which needs no decision.
pub(crate) const REPORT: i64 = 1;
/// An event that can be replayed or discarded.
pub(crate) const DEAD_EVENT: &str = "dead-event";

const SETTLED_WITHIN: Duration = Duration::from_secs(300);

pub(crate) struct Market {
    _folder: TempDir,
    server: Server,
    pub(crate) api: Api,
    pub(crate) snapshot: DatabaseSnapshot,
    secrets: Vec<String>,
    keys: AtomicU64,
    /// A product on sale.
    pub(crate) product: i64,
    /// A product that is sold to the buyer.
    pub(crate) sold: i64,
    /// A product that its seller took off sale.
    pub(crate) hidden: i64,
    /// A product on sale in the other tenant.
    pub(crate) foreign: i64,
    /// A pending order whose payment, `payment`, is in processing.
    pub(crate) pending: i64,
    pub(crate) payment: i64,
    /// A paid order; its payment is `settled`.
    pub(crate) paid: i64,
    pub(crate) settled: i64,
    /// A paid order whose refund, [`REFUND`], is in processing.
    pub(crate) refunding: i64,
    /// Coupons of the buyer: `coupon` is valid for any price, `expensive_coupon` only for a higher price than that of
    /// the products.
    pub(crate) coupon: i64,
    pub(crate) expensive_coupon: i64,
    /// A coupon of the other user.
    pub(crate) other_coupon: i64,
    /// A shipped order.
    pub(crate) shipped: i64,
    /// An order cancelled by the buyer.
    pub(crate) cancelled: i64,
}

impl Market {
    /// Starts the program and creates the objects.
    pub(crate) async fn open() -> Market {
        let (folder, launch) = fresh();
        let launch = launch.set("HANDOVER_OUTBOX__ON_FAILED", "hold");
        let server = launch.start().unwrap();
        let api = Api::of(&server);
        let snapshot = DatabaseSnapshot::open(&launch.database()).await;
        let list = async |seller: Caller| {
            let body = json!({"title": "a lamp", "price": 88.5});
            api.post(seller, "/api/v1/products", body).await.unwrap().id("productId")
        };
        let order = async |product| api.place_order(BUYER, product).await.unwrap().id("orderId");
        let start_payment = async |order| api.start_payment(BUYER, order).await.unwrap().id("paymentId");
        let here = Caller::from(SELLER);
        let product = list(here).await;
        let sold = list(here).await;
        let hidden = list(here).await;
        let foreign = list(FOREIGN_SELLER).await;
        api.post(SELLER, &format!("/api/v1/products/{hidden}/off-shelf"), json!({})).await.unwrap().value();
        let pending = order(sold).await;
        let payment = start_payment(pending).await;
        let paid = order(list(here).await).await;
        let settled = start_payment(paid).await;
        api.payment_succeeded(settled).await.unwrap().value();
        let refunding = order(list(here).await).await;
        let returned = start_payment(refunding).await;
        api.payment_succeeded(returned).await.unwrap().value();
        let issue = async |user: i64, min_spend: f64| {
            let body = json!({
                "userId": user, "discount": 5, "minSpend": min_spend, "expiresAt": "2999-01-01T00:00:00Z",
            });
            api.post(OPERATOR, "/api/v1/ops/coupons", body).await.unwrap().id("couponId")
        };
        let coupon = issue(BUYER, 0.0).await;
        let expensive_coupon = issue(BUYER, 88.51).await;
        let other_coupon = issue(OTHER_USER, 0.0).await;
        let shipped = order(list(here).await).await;
        api.payment_succeeded(start_payment(shipped).await).await.unwrap().value();
        api.ship(SELLER, shipped).await.unwrap().value();
        let cancelled = order(list(here).await).await;
        api.cancel(BUYER, cancelled).await.unwrap().value();
        insert_failed_events(&snapshot).await;
        insert_refund(&snapshot, refunding, returned).await;
        let secrets = vec![
            launch.secret("jwt"),
            launch.secret("gateway"),
            folder.path().display().to_string(),
            "handover.db".to_owned(),
        ];
        let market = Market {
            _folder: folder,
            server,
            api,
            snapshot,
            secrets,
            keys: AtomicU64::new(0),
            product,
            sold,
            hidden,
            foreign,
            pending,
            payment,
            paid,
            settled,
            refunding,
            coupon,
            expensive_coupon,
            other_coupon,
            shipped,
            cancelled,
        };
        market.settled().await;
        market
    }

    pub(crate) fn address(&self) -> &str {
        self.server.base().trim_start_matches("http://")
    }

    pub(crate) fn jwt_secret(&self) -> &str {
        &self.secrets[0]
    }

    /// Text that no response may contain.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(String::as_str)
    }

    /// Adds token, idempotency key and signature to the request of a case.
    pub(crate) fn complete(&self, case: &Case) -> Request {
        let mut request = case.request.clone();
        let requires_a_key =
            case.request.path == "/api/v1/orders" || case.request.path.ends_with("/payments");
        let is_keyed = request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(X_IDEMPOTENCY_KEY));
        let mut header = |name: &str, value: String| request.headers.push((name.to_owned(), value));
        if requires_a_key && !is_keyed && case.keyed {
            header(X_IDEMPOTENCY_KEY, format!("edge-{}", self.keys.fetch_add(1, Ordering::Relaxed)));
        }
        if let Some(caller) = case.by {
            header("Authorization", format!("Bearer {}", self.api.token(caller)));
        }
        if let Some(seconds) = case.signed {
            for (name, value) in self.api.signed("msg-edge", seconds, &case.request.body) {
                header(name, value);
            }
        }
        request
    }

    /// Waits until no event is in flight.
    pub(crate) async fn settled(&self) {
        self.snapshot.wait_until_settled(SETTLED_WITHIN).await;
    }

    /// Checks that the program is still ready and has logged no error.
    pub(crate) async fn assert_healthy(self) {
        assert_eq!(self.api.status_of("/readyz").await.unwrap(), 200);
        let log = self.server.launch().log();
        // The reports that need a decision are logged as alerts, and alerts are what the table causes.
        let is_alert =
            |line: &str| line.contains("[Gateway] [ALERT]") || line.contains(r#""code":"alert.started""#);
        let is_error = |line: &&str| line.contains(r#""level":"ERROR""#) && !is_alert(line);
        let errors: Vec<&str> = log.lines().filter(is_error).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        for secret in &self.secrets[..2] {
            assert!(!log.contains(secret.as_str()), "a secret is in the log");
        }
    }
}

/// Inserts rows that user requests cannot create: an event that the relay marked FAILED, and an event that its consumer
/// marked DEAD.
async fn insert_failed_events(snapshot: &DatabaseSnapshot) {
    let event = |id: &str, order: i64, status: &str| {
        format!(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, payload,
                status, retry_count, create_time, update_time, last_error)
             VALUES ('{id}', 'ORDER_PAID', 'Order', {order}, 2, '{{}}', '{status}', 4,
                strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now'), '消息发送失败')"
        )
    };
    let now = "strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')";
    let consumed = |consumer: &str, status: &str| {
        format!(
            "INSERT INTO event_consume_log (event_id, event_type, consumer, consume_time, status, attempts, cost_ms,
                payload_hash, trace_id, tenant_id, aggregate_type, aggregate_id, aggregate_seq)
             VALUES ('{DEAD_EVENT}', 'ORDER_PAID', '{consumer}', {now}, '{status}', 4, 1, '', 't', 1, 'Order', 900002, 2)"
        )
    };
    let dead_letter = format!(
        "INSERT INTO dead_letters (queue, message_key, tenant_id, event_type, trace_id, body, reason, died_at, status)
         VALUES ('order.fulfillment.queue', '{DEAD_EVENT}', 1, 'ORDER_PAID', 't', '{{}}', '消息消费失败', {now}, 'OPEN')"
    );
    for sql in [
        event(FAILED_EVENT, BLOCKED_ORDER, "FAILED"),
        // The consume log is written first, so that a consumer that receives the event finds it settled.
        consumed("fulfillment", "DEAD"),
        consumed("webhooks", "SUCCESS"),
        consumed("coupon", "SUCCESS"),
        consumed("wallet", "SUCCESS"),
        consumed("points", "SUCCESS"),
        event(DEAD_EVENT, BLOCKED_ORDER + 1, "SENT"),
        dead_letter,
    ] {
        assert_eq!(snapshot.change(&sql).await, 1);
    }
}

/// Inserts a refund that the gateway has already accepted, which the refund dispatcher does not send again.
async fn insert_refund(snapshot: &DatabaseSnapshot, order: i64, payment: i64) {
    let now = "strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')";
    let refund = format!(
        "INSERT INTO refunds (id, tenant_id, order_id, payment_id, amount_minor, currency, cause, reason, status,
            attempts, version, create_time, update_time)
         VALUES ({REFUND}, 1, {order}, {payment}, 8850, 'CNY', 'buyer', 'a test', 'PROCESSING', 1, 2, {now}, {now})"
    );
    for sql in [refund, format!("UPDATE orders SET refund_id = {REFUND} WHERE id = {order}")] {
        assert_eq!(snapshot.change(&sql).await, 1);
    }
}
