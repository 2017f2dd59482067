//! A running program with a seller, a buyer and an operator, and access to its database and its messages.

use std::time::Duration;

use handover_tests::client::{Api, ApiResponse, Caller};
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::{Launch, Server, eventually};
use handover_tests::servers::database::ServerKind;
use handover_tests::snapshot::DatabaseSnapshot;
use serde_json::{Value, json};

use super::broker_access::BrokerAccess;

pub(crate) const SELLER: i64 = 10_002;
pub(crate) const BUYER: i64 = 10_001;
pub(crate) const OPERATOR: Caller = Caller::of_tenant(1, 9).operator();

/// Timeout of every wait. It is long because the service retries failed publishes and deliveries only after its own
/// delays: three retries of the outbox take 155 s, a lost delivery 95 s.
pub(crate) const SOON: Duration = Duration::from_secs(300);

/// Short retry delays of consumers, so that four attempts take less than a second.
pub(crate) const SHORT_RETRIES: (&str, &str) =
    ("HANDOVER_CONSUMER__BACKOFF", r#"{base = "20ms", cap = "50ms"}"#);

/// A program with its own database.
pub(crate) struct Shop {
    deployment: Deployment,
    launch: Launch,
    server: Server,
    pub(crate) api: Api,
    pub(crate) snapshot: DatabaseSnapshot,
    pub(crate) broker: BrokerAccess,
}

impl Shop {
    /// Starts the program with these settings (environment variables).
    pub(crate) async fn open(pair: Pair, settings: &[(&str, &str)]) -> Shop {
        Shop::open_on(Deployment::start(pair).await, settings, None).await
    }

    /// Starts the program with these roles only.
    pub(crate) async fn open_with_roles(pair: Pair, roles: &str) -> Shop {
        Shop::open_on(Deployment::start(pair).await, &[], Some(roles)).await
    }

    /// Starts the program with a queue that receives a copy of every message.
    pub(crate) async fn open_with_spy(pair: Pair) -> Shop {
        let deployment = Deployment::start(pair).await;
        BrokerAccess::of(&deployment).await.declare_spy().await;
        Shop::open_on(deployment, &[], None).await
    }

    /// Starts the program on this deployment.
    pub(crate) async fn open_on(
        deployment: Deployment,
        settings: &[(&str, &str)],
        roles: Option<&str>,
    ) -> Shop {
        let launch = deployment.launch();
        let launch = settings.iter().fold(launch, |launch, (variable, value)| launch.set(variable, value));
        let first = roles.map_or_else(|| launch.clone(), |roles| launch.clone().roles(roles));
        let server = first.start().unwrap();
        let api = Api::of(&server);
        let snapshot = deployment.snapshot().await;
        let broker = BrokerAccess::of(&deployment).await;
        Shop { deployment, launch, server, api, snapshot, broker }
    }

    /// Stops the program. Returns its deployment and database.
    pub(crate) fn close(self) -> (Deployment, DatabaseSnapshot) {
        let (status, _) = self.server.terminate(SOON).unwrap();
        assert_eq!(status.code(), Some(0));
        (self.deployment, self.snapshot)
    }

    /// Stops the program and starts it again with all roles.
    pub(crate) fn reopen(self) -> Shop {
        let Shop { deployment, launch, server, api, snapshot, broker } = self;
        let (status, _) = server.terminate(SOON).unwrap();
        assert_eq!(status.code(), Some(0));
        let server = launch.start().unwrap();
        api.set_server(&server);
        Shop { deployment, launch, server, api, snapshot, broker }
    }

    /// Kills the program and starts it again with all roles.
    pub(crate) fn kill_and_reopen(self) -> Shop {
        let Shop { deployment, launch, server, api, snapshot, broker } = self;
        server.kill().unwrap();
        let server = launch.start().unwrap();
        api.set_server(&server);
        Shop { deployment, launch, server, api, snapshot, broker }
    }

    pub(crate) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    pub(crate) fn launch(&self) -> &Launch {
        &self.launch
    }

    /// The seller lists a product for 88.50. Returns its id.
    pub(crate) async fn product(&self) -> i64 {
        self.api.list_product(SELLER, "Desk lamp").await.unwrap().id("productId")
    }

    /// The buyer orders a new product. Returns the id of the pending order.
    pub(crate) async fn order(&self) -> i64 {
        let product = self.product().await;
        self.api.place_order(BUYER, product).await.unwrap().id("orderId")
    }

    /// The buyer pays, and the gateway reports success.
    pub(crate) async fn pay(&self, order: i64) {
        let payment = self.api.start_payment(BUYER, order).await.unwrap().id("paymentId");
        self.api.payment_succeeded(payment).await.unwrap().value();
    }

    /// Places and pays an order. Returns its id.
    pub(crate) async fn paid_order(&self) -> i64 {
        let order = self.order().await;
        self.pay(order).await;
        order
    }

    /// The seller ships, the buyer confirms receipt.
    pub(crate) async fn complete(&self, order: i64) {
        self.api.ship(SELLER, order).await.unwrap().value();
        self.api.complete(BUYER, order).await.unwrap().value();
    }

    pub(crate) async fn order_field(&self, order: i64, field: &str) -> Value {
        self.api.order(BUYER, order).await.unwrap().value()[field].clone()
    }

    pub(crate) async fn product_field(&self, product: i64, field: &str) -> Value {
        self.api.get(BUYER, &format!("/api/v1/products/{product}")).await.unwrap().value()[field].clone()
    }

    /// Returns the first column of every row of the result.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<String> {
        self.snapshot.rows(sql).await.unwrap()
    }

    /// Returns the types of an order's events, ordered by `aggregate_seq`.
    pub(crate) async fn events(&self, order: i64) -> Vec<String> {
        self.rows(&format!(
            "SELECT event_type FROM outbox_events WHERE aggregate_type = 'Order' AND aggregate_id = {order}
             ORDER BY aggregate_seq, id"
        ))
        .await
    }

    /// The ids of an order's events of this type, ordered by `aggregate_seq`.
    pub(crate) async fn event_ids(&self, order: i64, event_type: &str) -> Vec<String> {
        self.rows(&format!(
            "SELECT event_id FROM outbox_events WHERE aggregate_type = 'Order' AND aggregate_id = {order}
             AND event_type = '{event_type}' ORDER BY aggregate_seq"
        ))
        .await
    }

    /// The payload of an order's event of this type.
    pub(crate) async fn payload(&self, order: i64, event_type: &str) -> Value {
        let sql = format!(
            "SELECT payload FROM outbox_events WHERE aggregate_type = 'Order' AND aggregate_id = {order}
             AND event_type = '{event_type}'"
        );
        serde_json::from_str(&self.rows(&sql).await.remove(0)).unwrap()
    }

    /// Inserts an outbox row with only the columns of 000 §14.1, as a person would.
    pub(crate) async fn insert_event(
        &self,
        event_id: &str,
        event_type: &str,
        aggregate: i64,
        payload: &Value,
    ) {
        let now = chrono::Utc::now().format("%Y-%m-%d %H:%M:%S%.6f");
        let sql = format!(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, status,
                retry_count, next_retry_time, create_time, update_time)
             VALUES ('{event_id}', '{event_type}', 'Order', {aggregate}, '{payload}', 'NEW', 0, NULL, '{now}', '{now}')"
        );
        assert_eq!(self.snapshot.change(&sql).await, 1);
    }

    /// Makes the database reject new rows in this table.
    pub(crate) async fn refuse_rows_of(&self, table: &str) {
        let trigger = format!("CREATE TRIGGER refused BEFORE INSERT ON {table}");
        let sql = match self.deployment.pair().database_server() {
            None => format!("{trigger} BEGIN SELECT RAISE(ABORT, 'no room'); END"),
            Some(ServerKind::MariaDb) => {
                format!("{trigger} FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no room'")
            }
            Some(ServerKind::Postgres) => format!(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'no room'; END $$;
                 {trigger} FOR EACH ROW EXECUTE FUNCTION refuse()"
            ),
        };
        self.snapshot.change(&sql).await;
    }

    /// Undoes [`refuse_rows_of`](Shop::refuse_rows_of).
    pub(crate) async fn accept_rows_of(&self, table: &str) {
        let sql = match self.deployment.pair().database_server() {
            None | Some(ServerKind::MariaDb) => "DROP TRIGGER refused".to_owned(),
            Some(ServerKind::Postgres) => format!("DROP TRIGGER refused ON {table}"),
        };
        self.snapshot.change(&sql).await;
    }

    /// Number of log lines that contain all of these parts.
    pub(crate) fn logged(&self, parts: &[&str]) -> usize {
        let log = self.launch.log();
        log.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
    }

    /// Waits for a log line that contains all of these parts.
    pub(crate) async fn expect_logged(&self, parts: &[&str]) {
        self.expect_logged_times(parts, 1).await;
    }

    /// Waits until at least this many log lines contain all of these parts: a thread of the program writes its log.
    pub(crate) async fn expect_logged_times(&self, parts: &[&str], times: usize) {
        eventually(SOON, async || match self.logged(parts) {
            found if found < times => {
                Err(format!("{found} of {times} log lines contain all of {parts:?}").into())
            }
            _ => Ok(()),
        })
        .await;
    }

    /// Waits until the query returns this count.
    pub(crate) async fn expect_count(&self, count: i64, sql: &str) {
        eventually(SOON, async || match self.snapshot.number(sql).await {
            found if found == count => Ok(()),
            found => Err(format!("the query returned {found} instead of {count}: {sql}").into()),
        })
        .await;
    }

    /// Waits until no event is in flight.
    pub(crate) async fn settled(&self) {
        self.snapshot.wait_until_settled(SOON).await;
    }

    /// Checks all invariants except the known violations.
    pub(crate) async fn assert_invariants_except(&self, known: &[&str]) {
        let mut broken = self.snapshot.broken().await;
        broken.retain(|found| !known.iter().any(|known| found.starts_with(known)));
        assert_eq!(broken, Vec::<String>::new());
    }

    /// Sends an operator command.
    pub(crate) async fn operate(&self, path: &str, body: Value) -> ApiResponse {
        self.api.post(OPERATOR, &format!("/api/v1/ops/{path}"), body).await.unwrap()
    }

    /// The timeline items of one event of an order, as operators read them.
    pub(crate) async fn timeline_of(&self, order: i64, event: &str) -> Vec<Value> {
        let timeline = self.api.get(OPERATOR, &format!("/api/v1/ops/orders/{order}/timeline")).await.unwrap();
        timeline.items().iter().filter(|item| item["eventId"] == event).cloned().collect()
    }

    /// Sends an operator query.
    pub(crate) async fn inspect(&self, path: &str) -> ApiResponse {
        self.api.get(OPERATOR, &format!("/api/v1/ops/{path}")).await.unwrap()
    }
}

/// The descriptions of the timeline items of one kind.
pub(crate) fn descriptions<'a>(items: &'a [Value], kind: &str) -> Vec<&'a str> {
    items.iter().filter(|item| item["kind"] == kind).map(|item| item["what"].as_str().unwrap()).collect()
}

/// The payload of an ORDER_PAID event for an order that does not exist.
pub(crate) fn paid_payload(order: i64) -> Value {
    json!({
        "orderId": order, "orderNo": format!("20260204103000{order:010}"), "buyerId": BUYER, "sellerId": SELLER,
        "totalAmount": 88.5, "payTime": "2026-02-04T10:31:00Z", "amount": 88.5, "productId": 1,
    })
}
