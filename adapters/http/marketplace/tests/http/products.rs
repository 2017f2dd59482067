//! `/api/v1/products`.

use marketplace::Role;
use serde_json::json;

use crate::world::{BUYER, SELLER, World};

#[tokio::test(start_paused = true)]
async fn seller_offers_product_takes_it_off_sale_and_puts_it_back_on_sale() {
    let world = World::new().await;
    let listed = world
        .post_as(SELLER, "/api/v1/products")
        .json(r#"{"title":"二手自行车","price":88.5}"#)
        .send()
        .await
        .expect(201, "00000");
    let id = listed.id("productId");
    assert!(listed.text.contains(r#""price":88.50,"#), "{}", listed.text);
    assert_eq!(
        listed.data,
        json!({
            "productId": id, "title": "二手自行车", "price": listed.data["price"], "status": "on_sale",
            "sellerId": SELLER, "createTime": "2026-01-31T08:00:00.000000Z"
        })
    );
    let path = format!("/api/v1/products/{id}");
    assert_eq!(world.get_as(BUYER, &path).send().await.expect(200, "00000").data, listed.data);

    world.post_as(BUYER, &format!("{path}/off-shelf")).send().await.expect(403, "A0303");
    let hidden = world.post_as(SELLER, &format!("{path}/off-shelf")).send().await.expect(200, "00000");
    assert_eq!(hidden.data["status"], "off_shelf");
    let again = world.post_as(SELLER, &format!("{path}/off-shelf")).send().await.expect(409, "A0409");
    assert_eq!(again.message, "the product is off_shelf");
    let shown =
        world.post_as(SELLER, &format!("{path}/on-shelf")).json("{}").send().await.expect(200, "00000");
    assert_eq!(shown.data["status"], "on_sale");
}

#[tokio::test(start_paused = true)]
async fn product_pages_are_ordered_newest_first() {
    let world = World::new().await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.insert(0, world.product().await);
    }
    let first = world.get_as(BUYER, "/api/v1/products?limit=2").send().await.expect(200, "00000");
    assert_eq!(first.ids("productId"), all[..2]);
    let cursor = first.data["nextCursor"].as_str().unwrap();
    let path = format!("/api/v1/products?status=on_sale&limit=3&cursor={cursor}");
    let second = world.get_as(BUYER, &path).send().await.expect(200, "00000");
    assert_eq!(second.ids("productId"), all[2..]);
    assert!(second.data["nextCursor"].is_null());
    let sold = world.get_as(BUYER, "/api/v1/products?status=sold&cursor=&limit=").send().await;
    assert_eq!(sold.expect(200, "00000").data, json!({ "items": [], "nextCursor": null }));
}

#[tokio::test(start_paused = true)]
async fn product_of_another_tenant_is_404() {
    let world = World::new().await;
    let path = format!("/api/v1/products/{}", world.product().await);
    let other_tenant = world.token(SELLER, 2, &[Role::User]);
    world.get(&path).token(&other_tenant).send().await.expect(404, "A0404");
    world.post(&format!("{path}/off-shelf")).token(&other_tenant).send().await.expect(404, "A0404");
    let list = world.get("/api/v1/products").token(&other_tenant).send().await.expect(200, "00000");
    assert_eq!(list.ids("productId"), [] as [i64; 0]);
}
