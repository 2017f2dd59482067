//! What tests are tested with. The contract suite: a sound adapter passes every rule, and one that breaks a single promise
//! fails exactly the rules that state it. The search for canaries: it finds what is planted.
//!
//! A flaw that no rule notices is a promise that nothing checks. Add a flaw with its rules when a rule is added.

#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test outside any process of the application"
)]

use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::sync::Once;

use handover_tests::contract;
use tokio::task::JoinSet;

macro_rules! flaws {
    ($run:ident($flaws:ident) { $($test:ident: $flaw:ident breaks [$($rule:literal),* $(,)?])* }) => {
        $(#[test]
        fn $test() {
            crate::fails(&$run($flaws::$flaw), &[$($rule),*]);
        })*
    };
}

mod broker;
mod canary;
mod keys;
mod limiter;
mod store;

/// Each test has a runtime of its own; what its workers panic with is what they are for.
fn in_silence<T>(work: impl Future<Output = T>) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name() != Some("broken rule") {
                usual(panic);
            }
        }));
    });
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime =
        builder.worker_threads(2).thread_name("broken rule").enable_all().build().expect("a runtime");
    let out = runtime.block_on(work);
    runtime.shutdown_background();
    out
}

async fn broken(rules: Vec<(String, impl Future<Output = ()> + Send + 'static)>) -> BTreeSet<String> {
    let mut running = JoinSet::new();
    let mut names = std::collections::HashMap::new();
    for (name, rule) in rules {
        names.insert(running.spawn(rule).id(), name);
    }
    let mut broken = BTreeSet::new();
    while let Some(ended) = running.join_next_with_id().await {
        if let Err(error) = ended {
            broken.insert(names[&error.id()].clone());
        }
    }
    broken
}

#[track_caller]
fn fails(broken: &BTreeSet<String>, expected: &[&str]) {
    let expected: BTreeSet<_> = expected.iter().map(|name| (*name).to_owned()).collect();
    let unnoticed: Vec<_> = expected.difference(broken).collect();
    let falsely: Vec<_> = broken.difference(&expected).collect();
    assert!(
        unnoticed.is_empty() && falsely.is_empty(),
        "unnoticed: {unnoticed:#?}\nfalsely accused: {falsely:#?}"
    );
}

#[test]
fn every_rule_that_is_written_is_in_the_list_and_has_a_name_of_its_own() {
    let listed: Vec<(&str, &str, &str)> =
        (contract::store::RULES.iter().map(|rule| ("store", rule.file, rule.name)))
            .chain(contract::broker::RULES.iter().map(|rule| ("broker", rule.file, rule.name)))
            .chain(contract::limiter::RULES.iter().map(|rule| ("limiter", rule.file, rule.name)))
            .chain(contract::keys::RULES.iter().map(|rule| ("keys", rule.file, rule.name)))
            .collect();
    let mut written = BTreeSet::new();
    for port in ["store", "broker", "limiter", "keys"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/contract").join(port);
        for entry in fs::read_dir(folder).expect("the rules are there") {
            let path = entry.expect("a file").path();
            let file = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
            for line in fs::read_to_string(&path).expect("a source file").lines() {
                if let Some(rest) = line.strip_prefix("pub async fn ") {
                    let name = rest.split('(').next().unwrap_or(rest).to_owned();
                    assert!(written.insert((port, file.clone(), name.clone())), "{name} is written twice");
                }
            }
        }
    }
    let listed: BTreeSet<_> =
        listed.into_iter().map(|(port, file, name)| (port, file.to_owned(), name.to_owned())).collect();
    assert_eq!(listed, written);
}
