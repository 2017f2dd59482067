//! A running program with a seller, a buyer and an operator, its database and its messages.

use std::time::Duration;

use handover_tests::books::Books;
use handover_tests::client::{Answer, Api, Caller};
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::{Launch, Server, eventually};
use handover_tests::servers::database::ServerKind;
use serde_json::{Value, json};

use super::carrier::Carrier;

pub(crate) const SELLER: i64 = 10_002;
pub(crate) const BUYER: i64 = 10_001;
pub(crate) const OPERATOR: Caller = Caller::of_tenant(1, 9).operator();

/// The longest wait for anything that has to happen. No promise: on a busy machine a publish or a delivery may fail, and the
/// service repairs that by itself, after its own pauses: three retries of the outbox take 155 s, a lost delivery 95 s.
pub(crate) const SOON: Duration = Duration::from_secs(300);

/// Consumers try again at once, so that four attempts are over soon.
pub(crate) const HASTY_CONSUMERS: (&str, &str) =
    ("HANDOVER_CONSUMER__BACKOFF", r#"{base = "20ms", cap = "50ms"}"#);

/// A program on a database of its own.
pub(crate) struct Shop {
    deployment: Deployment,
    launch: Launch,
    server: Server,
    pub(crate) api: Api,
    pub(crate) books: Books,
    pub(crate) carrier: Carrier,
}

impl Shop {
    /// Opens with these settings, by their variables.
    pub(crate) async fn open(pair: Pair, settings: &[(&str, &str)]) -> Shop {
        Shop::open_on(Deployment::start(pair).await, settings, None).await
    }

    /// Opens with some of its parts only.
    pub(crate) async fn open_with_roles(pair: Pair, roles: &str) -> Shop {
        Shop::open_on(Deployment::start(pair).await, &[], Some(roles)).await
    }

    /// Opens with a queue that gets a copy of every message there is.
    pub(crate) async fn open_with_a_spy(pair: Pair) -> Shop {
        let deployment = Deployment::start(pair).await;
        Carrier::of(&deployment).await.spy().await;
        Shop::open_on(deployment, &[], None).await
    }

    /// Opens there.
    pub(crate) async fn open_on(
        deployment: Deployment,
        settings: &[(&str, &str)],
        roles: Option<&str>,
    ) -> Shop {
        let launch = deployment.launch();
        let launch = settings.iter().fold(launch, |launch, (variable, value)| launch.set(variable, value));
        let first = roles.map_or_else(|| launch.clone(), |roles| launch.clone().roles(roles));
        let server = first.start().unwrap();
        let (api, books) = (Api::of(&server), deployment.books().await);
        let carrier = Carrier::of(&deployment).await;
        Shop { deployment, launch, server, api, books, carrier }
    }

    /// Stops; what is left is the database.
    pub(crate) fn close(self) -> (Deployment, Books) {
        let (status, _) = self.server.terminate(SOON).unwrap();
        assert_eq!(status.code(), Some(0));
        (self.deployment, self.books)
    }

    /// Stops, and opens again with all of its parts.
    pub(crate) fn reopen(self) -> Shop {
        let Shop { deployment, launch, server, api, books, carrier } = self;
        let (status, _) = server.terminate(SOON).unwrap();
        assert_eq!(status.code(), Some(0));
        let server = launch.start().unwrap();
        api.moved_to(&server);
        Shop { deployment, launch, server, api, books, carrier }
    }

    /// Is killed, and opens again with all of its parts.
    pub(crate) fn killed_and_reopened(self) -> Shop {
        let Shop { deployment, launch, server, api, books, carrier } = self;
        server.kill().unwrap();
        let server = launch.start().unwrap();
        api.moved_to(&server);
        Shop { deployment, launch, server, api, books, carrier }
    }

    /// The servers that it is on.
    pub(crate) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// How it was started.
    pub(crate) fn launch(&self) -> &Launch {
        &self.launch
    }

    /// The seller lists a product for 88.50.
    pub(crate) async fn product(&self) -> i64 {
        self.api.list_product(SELLER, "Desk lamp").await.unwrap().id("productId")
    }

    /// The buyer orders a new product; the order is pending.
    pub(crate) async fn order(&self) -> i64 {
        let product = self.product().await;
        self.api.place_order(BUYER, product).await.unwrap().id("orderId")
    }

    /// The buyer pays, and the gateway says so.
    pub(crate) async fn pay(&self, order: i64) {
        let payment = self.api.start_payment(BUYER, order).await.unwrap().id("paymentId");
        self.api.payment_succeeded(payment).await.unwrap().value();
    }

    /// The buyer orders a new product and pays.
    pub(crate) async fn paid_order(&self) -> i64 {
        let order = self.order().await;
        self.pay(order).await;
        order
    }

    /// The seller ships, the buyer confirms.
    pub(crate) async fn complete(&self, order: i64) {
        self.api.ship(SELLER, order).await.unwrap().value();
        self.api.complete(BUYER, order).await.unwrap().value();
    }

    /// A field of the order.
    pub(crate) async fn order_field(&self, order: i64, field: &str) -> Value {
        self.api.order(BUYER, order).await.unwrap().value()[field].clone()
    }

    /// A field of a product.
    pub(crate) async fn product_field(&self, product: i64, field: &str) -> Value {
        self.api.get(BUYER, &format!("/api/v1/products/{product}")).await.unwrap().value()[field].clone()
    }

    /// The first column of every row.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<String> {
        self.books.rows(sql).await.unwrap()
    }

    /// The types of the events about an order, in their order.
    pub(crate) async fn events(&self, order: i64) -> Vec<String> {
        self.rows(&format!(
            "SELECT event_type FROM outbox_events WHERE aggregate_type = 'Order' AND aggregate_id = {order}
             ORDER BY aggregate_seq, id"
        ))
        .await
    }

    /// The ids of the events of that type about an order, in their order.
    pub(crate) async fn event_ids(&self, order: i64, event_type: &str) -> Vec<String> {
        self.rows(&format!(
            "SELECT event_id FROM outbox_events WHERE aggregate_type = 'Order' AND aggregate_id = {order}
             AND event_type = '{event_type}' ORDER BY aggregate_seq"
        ))
        .await
    }

    /// The payload of the event of that type about an order.
    pub(crate) async fn payload(&self, order: i64, event_type: &str) -> Value {
        let sql = format!(
            "SELECT payload FROM outbox_events WHERE aggregate_type = 'Order' AND aggregate_id = {order}
             AND event_type = '{event_type}'"
        );
        serde_json::from_str(&self.rows(&sql).await.remove(0)).unwrap()
    }

    /// A row of the outbox with the columns of 000 §14.1 alone, as a person would insert it.
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
        assert_eq!(self.books.change(&sql).await, 1);
    }

    /// From now on the database refuses every new row of this table.
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
        self.books.change(&sql).await;
    }

    /// Rows of this table are welcome again.
    pub(crate) async fn accept_rows_of(&self, table: &str) {
        let sql = match self.deployment.pair().database_server() {
            None | Some(ServerKind::MariaDb) => "DROP TRIGGER refused".to_owned(),
            Some(ServerKind::Postgres) => format!("DROP TRIGGER refused ON {table}"),
        };
        self.books.change(&sql).await;
    }

    /// How many lines of the log hold all of these.
    pub(crate) fn logged(&self, parts: &[&str]) -> usize {
        let log = self.launch.log();
        log.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
    }

    /// Waits for a line of the log.
    pub(crate) async fn expect_logged(&self, parts: &[&str]) {
        eventually(SOON, async || match self.logged(parts) {
            0 => Err(format!("no line with {parts:?}").into()),
            _ => Ok(()),
        })
        .await;
    }

    /// Waits until a query counts so many.
    pub(crate) async fn expect_count(&self, count: i64, sql: &str) {
        eventually(SOON, async || match self.books.number(sql).await {
            found if found == count => Ok(()),
            found => Err(format!("{found} instead of {count}: {sql}").into()),
        })
        .await;
    }

    /// Waits until no event is on its way.
    pub(crate) async fn settled(&self) {
        self.books.wait_until_settled(SOON).await;
    }

    /// Everything that must be true of every row is, but for these sentences.
    pub(crate) async fn sound_but_for(&self, known: &[&str]) {
        let mut broken = self.books.broken().await;
        broken.retain(|found| !known.iter().any(|known| found.starts_with(known)));
        assert_eq!(broken, Vec::<String>::new());
    }

    /// The operator asks for something to be done.
    pub(crate) async fn operate(&self, path: &str, body: Value) -> Answer {
        self.api.post(OPERATOR, &format!("/api/v1/ops/{path}"), body).await.unwrap()
    }

    /// What an operator sees of one event in the timeline of its order.
    pub(crate) async fn timeline_of(&self, order: i64, event: &str) -> Vec<Value> {
        let shown = self.api.get(OPERATOR, &format!("/api/v1/orders/{order}/timeline")).await.unwrap();
        shown.items().iter().filter(|item| item["eventId"] == event).cloned().collect()
    }

    /// The operator looks.
    pub(crate) async fn inspect(&self, path: &str) -> Answer {
        self.api.get(OPERATOR, &format!("/api/v1/ops/{path}")).await.unwrap()
    }
}

/// The items of a timeline of one kind, in words.
pub(crate) fn whats<'a>(items: &'a [Value], kind: &str) -> Vec<&'a str> {
    items.iter().filter(|item| item["kind"] == kind).map(|item| item["what"].as_str().unwrap()).collect()
}

/// The payload of an ORDER_PAID about an order that only the event knows.
pub(crate) fn paid_payload(order: i64) -> Value {
    json!({
        "orderId": order, "orderNo": format!("20260204103000{order:010}"), "buyerId": BUYER, "sellerId": SELLER,
        "totalAmount": 88.5, "payTime": "2026-02-04T10:31:00Z", "amount": 88.5, "productId": 1,
    })
}
