//! Separate routers for users and operators.

use marketplace::Role;

use crate::access::{TABLE, is_operators_route, routes};
use crate::world::{OTHER_USER, Setup, World};

#[tokio::test(start_paused = true)]
async fn split_routers_separate_api_routes_and_share_health_and_documentation() {
    let world = World::with(Setup { split_routers: true, ..World::with_metrics() }).await;
    let operators = world.operators.clone().unwrap();
    let public_routes = routes(&world.router);
    let operator_routes = routes(&operators);
    let is_for_operators = |path: &str| is_operators_route(path) || path == "/metrics";
    let is_on_both = |path: &str| {
        ["/", "/healthz", "/readyz", "/openapi.json"].contains(&path) || path.starts_with("/docs")
    };
    for row in TABLE {
        let route = (row.method.to_owned(), row.route.to_owned());
        let actual = (public_routes.contains(&route), operator_routes.contains(&route));
        let expected = (!is_for_operators(row.route), is_for_operators(row.route) || is_on_both(row.route));
        assert_eq!(actual, expected, "{route:?}");
    }
    assert_eq!(public_routes.union(&operator_routes).count(), TABLE.len());
}

#[tokio::test(start_paused = true)]
async fn public_router_has_no_operator_routes_for_any_role() {
    let world = World::with(Setup { split_routers: true, ..World::with_metrics() }).await;
    let token = world.token(OTHER_USER, 1, Role::ALL);
    for row in TABLE.iter().filter(|row| is_operators_route(row.route) || row.route == "/metrics") {
        let request = world.request(row.method, row.path).token(&token);
        request.json("{}").undocumented().send().await.expect(404, "A0404");
    }
    world.get("/api/v1/products").token(&token).send().await.expect(200, "00000");
    let operators = world.operators.as_ref().unwrap();
    let get = |path: &str| crate::client::Request::new(operators, "GET", path).token(&token);
    get("/api/v1/ops/stats").send().await.expect(200, "00000");
    get("/healthz").send().await.expect(200, "00000");
    get("/api/v1/products").undocumented().send().await.expect(404, "A0404");
    assert_eq!(get("/metrics").send_raw().await.0, 200);
}
