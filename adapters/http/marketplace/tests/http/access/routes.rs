//! Reads the routes of a router from its `Debug` output.

use std::collections::{BTreeMap, BTreeSet};

use axum::Router;

const METHODS: [&str; 9] = ["get", "head", "delete", "options", "patch", "post", "put", "trace", "connect"];

/// Method and path of every route. axum exposes them only in its `Debug` output. If that format changes, no routes are found
/// and the tests fail.
pub(crate) fn routes(router: &Router) -> BTreeSet<(String, String)> {
    let debug = format!("{router:?}");
    let own = debug.split("fallback_router:").next().unwrap();
    let (routes, paths) = own.split_once("paths: {").unwrap();
    let paths: BTreeMap<&str, &str> = paths
        .split("RouteId(")
        .filter_map(|entry| entry.split_once("): \""))
        .map(|(id, rest)| (id, rest.split('"').next().unwrap()))
        .collect();
    let mut found = BTreeSet::new();
    for entry in routes.split("RouteId(").skip(1) {
        let (id, methods) = entry.split_once("): MethodRouter(MethodRouter {").unwrap();
        for method in METHODS {
            let value = methods.split_once(&format!(" {method}: ")).unwrap().1;
            if !value.starts_with("None") {
                found.insert((method.to_ascii_uppercase(), paths[id].to_owned()));
            }
        }
    }
    assert_eq!(found.iter().map(|(_, path)| path).collect::<BTreeSet<_>>().len(), paths.len());
    found
}
