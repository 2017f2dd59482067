//! Operators' calls on a router of their own.

use marketplace::Role;

use crate::access::{TABLE, routes};
use crate::world::{STRANGER, Setup, World};

#[tokio::test(start_paused = true)]
async fn each_call_is_on_one_of_the_two_routers_and_what_the_process_tells_on_both() {
    let world = World::with(Setup { apart: true, ..World::counting() }).await;
    let operators = world.operators.clone().unwrap();
    let (public, of_operators) = (routes(&world.router), routes(&operators));
    let is_of_operators = |path: &str| path.starts_with("/api/v1/ops/") || path == "/metrics";
    let is_on_both = |path: &str| {
        ["/", "/healthz", "/readyz", "/openapi.json"].contains(&path) || path.starts_with("/docs")
    };
    for row in TABLE {
        let route = (row.method.to_owned(), row.route.to_owned());
        let here = (public.contains(&route), of_operators.contains(&route));
        let expected = (!is_of_operators(row.route), is_of_operators(row.route) || is_on_both(row.route));
        assert_eq!(here, expected, "{route:?}");
    }
    assert_eq!(public.union(&of_operators).count(), TABLE.len());
}

#[tokio::test(start_paused = true)]
async fn the_public_router_knows_nothing_of_operators_calls_whoever_asks() {
    let world = World::with(Setup { apart: true, ..World::counting() }).await;
    let token = world.token(STRANGER, 1, Role::ALL);
    for row in TABLE.iter().filter(|row| row.route.starts_with("/api/v1/ops/") || row.route == "/metrics") {
        let request = world.request(row.method, row.path).token(&token);
        request.json("{}").undocumented().send().await.expect(404, "A0404");
    }
    world.get("/api/v1/products").token(&token).send().await.expect(200, "00000");
    let operators = world.operators.as_ref().unwrap();
    let ask = |path: &str| crate::client::Request::new(operators, "GET", path).token(&token);
    ask("/api/v1/ops/stats").send().await.expect(200, "00000");
    ask("/healthz").send().await.expect(200, "00000");
    ask("/api/v1/products").undocumented().send().await.expect(404, "A0404");
    assert_eq!(ask("/metrics").send_raw().await.0, 200);
}
