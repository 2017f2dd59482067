//! Validation of request bodies and parameters: responses name each invalid field.

use marketplace::Role;

use crate::world::{BUYER, GATEWAY_SECRET, OTHER_USER, SELLER, World};

const PRODUCT: &str = r#"{"title":"a bicycle","price":88.50}"#;

#[tokio::test(start_paused = true)]
async fn product_with_invalid_fields_reports_every_field() {
    let world = World::new().await;
    let cases: [(&str, &[&str]); 25] = [
        ("", &["body"]),
        ("{", &["body"]),
        ("null", &["body"]),
        ("[1]", &["body"]),
        (r#"{"title":"a","price":1} x"#, &["body"]),
        ("{}", &["title", "price"]),
        (r#"{"title":null,"price":null}"#, &["title", "price"]),
        (r#"{"title":"","price":0}"#, &["title", "price"]),
        (r#"{"title":"  ","price":1}"#, &["title"]),
        (r#"{"title":"a\nb","price":1}"#, &["title"]),
        (r#"{"title":7,"price":1}"#, &["title"]),
        (r#"{"title":"a","price":"1.00"}"#, &["price"]),
        (r#"{"title":"a","price":1.001}"#, &["price"]),
        (r#"{"title":"a","price":1.000}"#, &["price"]),
        (r#"{"title":"a","price":1e2}"#, &["price"]),
        (r#"{"title":"a","price":1E+2}"#, &["price"]),
        (r#"{"title":"a","price":-1}"#, &["price"]),
        (r#"{"title":"a","price":0.00}"#, &["price"]),
        (r#"{"title":"a","price":10000000}"#, &["price"]),
        (r#"{"title":"a","price":99999999999999999999999999}"#, &["price"]),
        (r#"{"title":"a","price":true}"#, &["price"]),
        (r#"{"title":"a","price":[1]}"#, &["price"]),
        (r#"{"title":"a","price":1,"sellerId":9,"status":"sold"}"#, &["sellerId", "status"]),
        (r#"{"title":"a","title":"b","price":1}"#, &["title"]),
        (r#"{"title":"","price":0,"extra":1}"#, &["title", "price", "extra"]),
    ];
    for (body, fields) in cases {
        let response = world.post_as(SELLER, "/api/v1/products").json(body).send().await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), fields, "{body}");
    }
    let long = format!(r#"{{"title":"{}","price":1}}"#, "字".repeat(121));
    let response = world.post_as(SELLER, "/api/v1/products").json(long).send().await.expect(400, "A0400");
    assert_eq!(response.wrong_fields(), ["title"]);
}

#[tokio::test(start_paused = true)]
async fn at_most_a_hundred_errors_are_reported() {
    let world = World::new().await;
    let twice = |n: usize| format!(r#""a{n}":0,"a{n}":0"#);
    let body = format!("{{{}}}", (0..500).map(twice).collect::<Vec<_>>().join(","));
    let response = world.post_as(SELLER, "/api/v1/products").json(body).send().await.expect(400, "A0400");
    assert_eq!(response.wrong_fields().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn body_that_is_not_json_names_line_and_column() {
    let world = World::new().await;
    for (body, en, zh) in [
        ("", "is not valid JSON: line 1, column 0", "不是合法的 JSON：第 1 行第 0 列"),
        (
            "{\n \"title\": \"a\",\n \"price\" 1}",
            "is not valid JSON: line 3, column 10",
            "不是合法的 JSON：第 3 行第 10 列",
        ),
        (
            r#"{"title":"a","price":01}"#,
            "is not valid JSON: line 1, column 23",
            "不是合法的 JSON：第 1 行第 23 列",
        ),
        (
            r#"{"title":"a","price":1} x"#,
            "is not valid JSON: line 1, column 25",
            "不是合法的 JSON：第 1 行第 25 列",
        ),
        ("[1]", "must be a JSON object", "必须是 JSON 对象"),
    ] {
        for (language, expected) in [("en", en), ("zh", zh)] {
            let request = world.post_as(SELLER, "/api/v1/products").header("accept-language", language);
            let response = request.json(body).send().await.expect(400, "A0400");
            assert_eq!(response.wrong_fields(), ["body"]);
            assert_eq!(response.data["errors"][0]["message"], expected, "{body}");
        }
    }
    // Valid JSON that the parser rejects: an unpaired surrogate, and nesting that is too deep.
    for (title, field) in
        [(r#""\ud800""#.to_owned(), "title"), (format!("{}1{}", "[".repeat(200), "]".repeat(200)), "title")]
    {
        let body = format!(r#"{{"title":{title},"price":1}}"#);
        let response = world.post_as(SELLER, "/api/v1/products").json(body).send().await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), [field]);
        assert!(
            response.data["errors"][0]["message"].as_str().unwrap().starts_with("cannot be read"),
            "{}",
            response.text
        );
    }
}

/// The message names the limits of the field, not those of the `Money` type.
#[tokio::test(start_paused = true)]
async fn amount_out_of_range_names_the_limits_of_its_field() {
    let world = World::new().await;
    let operator = world.token(OTHER_USER, 1, &[Role::Operator]);
    let price_range = "must be from 0.01 to 9999999.99";
    for amount in ["0", "-1", "10000000", "90071992547409.92", "99999999999999999999999999"] {
        let body = format!(r#"{{"title":"a","price":{amount}}}"#);
        let response = world.post_as(SELLER, "/api/v1/products").json(body).send().await.expect(400, "A0400");
        assert_eq!(response.data["errors"][0]["message"], price_range, "{amount}");
        if amount == "0" {
            continue;
        }
        let coupon = format!(
            r#"{{"userId":2,"discount":{amount},"minSpend":{amount},"expiresAt":"2030-01-01T00:00:00Z"}}"#
        );
        let request = world.post("/api/v1/ops/coupons").token(&operator).json(coupon);
        let response = request.send().await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), ["discount", "minSpend"]);
        assert_eq!(response.data["errors"][0]["message"], price_range, "{amount}");
        assert_eq!(response.data["errors"][1]["message"], "must be from 0.00 to 9999999.99", "{amount}");
    }
    let body = r#"{"title":"a","price":1.001}"#;
    let response = world.post_as(SELLER, "/api/v1/products").json(body).send().await.expect(400, "A0400");
    assert_ne!(response.data["errors"][0]["message"], price_range, "the error is the third decimal");
}

#[tokio::test(start_paused = true)]
async fn encoded_body_is_415_with_accept_encoding_header() {
    let world = World::new().await;
    for coding in ["gzip", "deflate", "br", "x", "identity, gzip"] {
        for key in [None, Some("k-1")] {
            let request = world.post_as(SELLER, "/api/v1/products").header("content-encoding", coding);
            let request = match key {
                Some(key) => request.header("x-idempotency-key", key),
                None => request,
            };
            let response = request.json(PRODUCT).send().await.expect(415, "A0400");
            assert_eq!(response.headers["accept-encoding"], "identity");
            assert!(response.message.contains("without Content-Encoding"), "{}", response.message);
        }
    }
    for coding in ["identity", "Identity", ""] {
        let request = world.post_as(SELLER, "/api/v1/products").header("content-encoding", coding);
        request.json(PRODUCT).send().await.expect(201, "00000");
    }
}

#[tokio::test(start_paused = true)]
async fn smallest_and_largest_price_are_accepted() {
    let world = World::new().await;
    let title = "字".repeat(120);
    for price in ["0.01", "9999999.99", "1", "1.5"] {
        let body = format!(r#"{{"title":"{title}","price":{price}}}"#);
        world.post_as(SELLER, "/api/v1/products").json(body).send().await.expect(201, "00000");
    }
}

#[tokio::test(start_paused = true)]
async fn order_routes_report_every_invalid_field() {
    let world = World::new().await;
    let order = world.order().await;
    let step = |name: &str| format!("/api/v1/orders/{order}/{name}");
    let orders = "/api/v1/orders".to_owned();
    let cases: [(&str, &str, &[&str]); 18] = [
        (&orders, "{}", &["productId"]),
        (&orders, r#"{"productId":"1"}"#, &["productId"]),
        (&orders, r#"{"productId":1.5}"#, &["productId"]),
        (&orders, r#"{"productId":1e1}"#, &["productId"]),
        (&orders, r#"{"productId":9007199254740992}"#, &["productId"]),
        (
            &orders,
            r#"{"productId":1,"couponId":"2","walletAmount":1.001,"points":-5}"#,
            &["couponId", "walletAmount", "points"],
        ),
        (
            &orders,
            r#"{"productId":1,"couponId":0,"walletAmount":"1.00","points":1.5}"#,
            &["couponId", "walletAmount", "points"],
        ),
        (&orders, r#"{"productId":1,"points":9007199254740992,"cash":1}"#, &["points", "cash"]),
        (&step("cancel"), r#"{"reason":"no"}"#, &["reason"]),
        (&step("cancel"), r#"{"offShelf":"yes"}"#, &["offShelf"]),
        (&step("complete"), "[]", &["body"]),
        (&step("ship"), "{}", &["carrier", "trackingNo"]),
        (&step("ship"), "", &["body"]),
        (&step("ship"), r#"{"carrier":"","trackingNo":5,"cost":1}"#, &["carrier", "trackingNo", "cost"]),
        (&step("ship"), r#"{"carrier":"a\u0000","trackingNo":"1"}"#, &["carrier"]),
        (&step("payments"), r#"{"paymentMethod":""}"#, &["paymentMethod"]),
        (&step("payments"), r#"{"paymentMethod":"4111111111111111"}"#, &["paymentMethod"]),
        (&step("payments"), r#"{"amount":0.01}"#, &["amount"]),
    ];
    for (path, body, fields) in cases {
        let response = world.post_as(BUYER, path).json(body).send().await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), fields, "{path} {body}");
    }
    assert_eq!(world.order_status(order).await, "pending");
}

#[tokio::test(start_paused = true)]
async fn invalid_query_parameters_are_named() {
    let world = World::new().await;
    let operator = world.token(OTHER_USER, 1, &[Role::User, Role::Operator]);
    let cases: [(&str, &[&str]); 20] = [
        ("orders?as=", &["as"]),
        ("products?limit=0", &["limit"]),
        ("products?limit=101", &["limit"]),
        ("products?limit=ten", &["limit"]),
        ("products?cursor=x", &["cursor"]),
        ("products?cursor=0", &["cursor"]),
        ("products?cursor=-1", &["cursor"]),
        ("products?status=gone", &["status"]),
        ("products?page=2", &["page"]),
        ("orders?as=carrier", &["as"]),
        ("orders?status=on_sale&limit=1&limit=2", &["status", "limit"]),
        ("ops/outbox?status=DEAD", &["status"]),
        ("ops/outbox?aggregateId=x", &["aggregateId"]),
        ("ops/outbox?tenantId=0", &["tenantId"]),
        ("ops/outbox?eventType=%00", &["eventType"]),
        ("ops/outbox?from=yesterday&to=2026-01-31", &["from", "to"]),
        ("ops/outbox?from=0000-12-31T23:59:59Z&to=9999-12-31T23:59:59-00:01", &["from", "to"]),
        ("ops/audit?from=0001-01-01T00:00:00%2B00:01", &["from"]),
        ("ops/outbox?cursor=9223372036854775808", &["cursor"]),
        ("ops/queues?queue=x", &["queue"]),
    ];
    for (path, fields) in cases {
        let response =
            world.get(&format!("/api/v1/{path}")).token(&operator).send().await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), fields, "{path}");
    }
    let widest = "ops/outbox?from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z";
    for path in ["products?limit=1", "products?limit=100", "orders?limit=100", "ops/outbox?limit=100", widest]
    {
        world.get(&format!("/api/v1/{path}")).token(&operator).send().await.expect(200, "00000");
    }
}

#[tokio::test(start_paused = true)]
async fn time_that_a_database_cannot_store_names_the_years() {
    let world = World::new().await;
    let body = r#"{"filter":{"from":"0000-01-01T00:00:00Z"}}"#;
    for (language, expected) in [
        ("en", "must be in the years 1 to 9999 in UTC"),
        ("zh", "换算为 UTC 后必须在公元 1 年至 9999 年之间"),
    ] {
        let request = world.post("/api/v1/ops/outbox/redrive").token(&world.operator_token()).json(body);
        let response = request.header("accept-language", language).send().await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), ["filter.from"]);
        assert_eq!(response.data["errors"][0]["message"], expected);
    }
}

/// With a valid type the response is 409, because failed events block nothing in this world.
#[tokio::test(start_paused = true)]
async fn release_of_aggregate_type_that_no_row_can_have_is_404() {
    let world = World::new().await;
    let longest = "T".repeat(64);
    let too_long = "T".repeat(65);
    for (kind, status, code) in [
        ("Order%00", 404, "A0404"),
        ("Order%0A", 404, "A0404"),
        (too_long.as_str(), 404, "A0404"),
        (longest.as_str(), 409, "A0409"),
    ] {
        let path = format!("/api/v1/ops/blocked/{kind}/1/release");
        world.post(&path).token(&world.operator_token()).send().await.expect(status, code);
    }
}

#[tokio::test(start_paused = true)]
async fn unescaped_plus_in_the_time_zone_of_a_query_is_explained() {
    let world = World::new().await;
    let message = async |query: &str| {
        let request = world.get_as_operator(&format!("/api/v1/ops/outbox?from={query}"));
        let response = request.send().await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), ["from"]);
        response.data["errors"][0]["message"].as_str().unwrap().to_owned()
    };
    let unescaped = message("2026-01-01T00:00:00+08:00").await;
    assert!(unescaped.contains("write the + of its time zone as %2B"), "{unescaped}");
    assert_eq!(message("2026-01-01T00:00:00%2008:00").await, unescaped);
    for other in ["2026-01-01+00:00:00", "2026-01-01T00:00:00+8", "yesterday+08:00"] {
        let other = message(other).await;
        assert!(!other.contains("%2B"), "{other}");
    }
    for valid in ["2026-01-01T00:00:00%2B08:00", "2026-01-01T00:00:00-08:00", "2026-01-01T00:00:00Z"] {
        let path = format!("/api/v1/ops/outbox?from={valid}");
        world.get_as_operator(&path).send().await.expect(200, "00000");
    }
}

/// Two components that read such a request could choose different values.
#[tokio::test(start_paused = true)]
async fn repeated_single_valued_header_is_refused_by_name() {
    let world = World::new().await;
    let path = "/api/v1/products";
    let token = world.token(SELLER, 1, &[Role::User]);
    for second in [format!("Bearer {token}"), "Basic eA==".to_owned(), String::new()] {
        let request = world.get(path).token(&token).header("authorization", &second);
        let refused = request.send().await.expect(401, "A0301");
        assert!(refused.message.contains("Authorization is given more than once"), "{}", refused.message);
        assert_eq!(refused.headers["www-authenticate"], "Bearer");
    }
    for second in ["application/json", "text/plain"] {
        let request = world.post_as(SELLER, path).json(PRODUCT).header("content-type", second);
        let refused = request.send().await.expect(415, "A0400");
        assert!(refused.message.contains("Content-Type is given more than once"), "{}", refused.message);
    }
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let request = world.post("/api/v1/payments/callback").json("{}").signed(GATEWAY_SECRET, 0);
        let refused = request.header(name, "1").send().await.expect(401, "A0301");
        assert!(refused.message.contains(&format!("{name} is given more than once")), "{}", refused.message);
    }
    // A trace header never causes a refusal; a repeated one is ignored like an invalid one.
    let traced = world.get("/healthz").header("x-trace-id", "one").header("x-trace-id", "two").send().await;
    assert_eq!(traced.expect(200, "00000").trace_id.len(), 32);
}

#[tokio::test(start_paused = true)]
async fn idempotency_key_must_be_visible_ascii() {
    let world = World::new().await;
    let longest = "k".repeat(255);
    for key in ["k", longest.as_str()] {
        let request = world.post_as(SELLER, "/api/v1/products").header("x-idempotency-key", key);
        request.json(PRODUCT).send().await.expect(201, "00000");
    }
    let too_long = "k".repeat(256);
    for key in ["", "a b", too_long.as_str()] {
        let request = world.post_as(SELLER, "/api/v1/products").header("x-idempotency-key", key);
        let response = request.json(PRODUCT).send().await;
        assert_eq!(response.expect(400, "A0400").wrong_fields(), ["X-Idempotency-Key"]);
    }
}
