//! Self-tests of the contract suite and of the leak check. A correct adapter passes every rule of the suite, and an
//! adapter with one fault fails exactly the listed rules. The leak check finds planted canaries.
//!
//! If no rule finds a fault, no rule checks the violated guarantee. For each new rule, add a fault that the rule finds.
//!
//! CI runs a faulty adapter against the files of the listed rules; with `HANDOVER_LONG` it runs against every rule.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Once;

use handover_contract::Rule;
use handover_tests::long;
use tokio::task::JoinSet;

macro_rules! faults {
    ($run:ident($faults:ident) { $($test:ident: $fault:ident breaks [$($rule:literal),* $(,)?])* }) => {
        $(#[test]
        fn $test() {
            let expected = [$($rule),*];
            crate::selftest::assert_broken(&$run($faults::$fault, &expected), &expected);
        })*
    };
}

mod broker;
mod canary;
mod faulty_store;
mod keys;
mod limiter;
mod store;

/// The rules that an adapter breaks, of those that [`is_run`] chooses.
///
/// The rules run concurrently, on one thread and in virtual time: time advances as soon as no rule can proceed, so
/// timeouts cost nothing.
fn broken<R: ?Sized + Send + Sync + 'static>(
    rules: &'static [Rule<R>],
    expected: &[&str],
    rig: impl Fn() -> Box<R> + Sync,
) -> BTreeSet<&'static str> {
    let rules: Vec<_> = rules.iter().filter(|rule| is_run(rule, rules, expected)).collect();
    let passed = without_panic_output(async || {
        let mut running = JoinSet::new();
        for rule in rules.iter().copied() {
            let rig = rig();
            running.spawn(async move {
                (rule.run)(rig.as_ref()).await;
                rule.name
            });
        }
        let mut passed = BTreeSet::new();
        while let Some(ended) = running.join_next().await {
            passed.extend(ended.ok());
        }
        passed
    });
    rules.iter().map(|rule| rule.name).filter(|name| !passed.contains(name)).collect()
}

/// Whether a rule is run: in CI only if its file has an expected rule, or if none is expected.
fn is_run<R: ?Sized>(rule: &Rule<R>, rules: &[Rule<R>], expected: &[&str]) -> bool {
    let is_listed = |other: &Rule<R>| other.file == rule.file && expected.contains(&other.name);
    long() || expected.is_empty() || rules.iter().any(is_listed)
}

/// Runs work in virtual time, on a thread that does not print panics, because broken rules panic on purpose.
fn without_panic_output<T: Send>(work: impl AsyncFnOnce() -> T + Send) -> T {
    const SILENT: &str = "broken rule";
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name() != Some(SILENT) {
                default_hook(panic);
            }
        }));
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(SILENT.to_owned());
        let working = thread.spawn_scoped(scope, move || runtime.block_on(work())).expect("a thread");
        working.join().expect("only the tasks of rules may panic, not this thread")
    })
}

#[track_caller]
fn assert_broken(broken: &BTreeSet<&str>, expected: &[&str]) {
    let expected: BTreeSet<&str> = expected.iter().copied().collect();
    let not_found: Vec<_> = expected.difference(broken).collect();
    let false_alarms: Vec<_> = broken.difference(&expected).collect();
    assert!(
        not_found.is_empty() && false_alarms.is_empty(),
        "not found: {not_found:#?}\nfalse alarms: {false_alarms:#?}"
    );
}

/// The lists of rules, each with the folder of its files in `contract/`.
fn lists() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    fn names<R: ?Sized>(rules: &'static [Rule<R>]) -> Vec<(&'static str, &'static str)> {
        rules.iter().map(|rule| (rule.file, rule.name)).collect()
    }
    vec![
        ("outbox/src/store", names(handover_contract::store::RULES)),
        ("outbox/src/broker", names(handover_contract::broker::RULES)),
        ("marketplace/src/store", names(marketplace_contract::store::RULES)),
        ("marketplace/src/limiter", names(marketplace_contract::limiter::RULES)),
        ("marketplace/src/keys", names(marketplace_contract::keys::RULES)),
    ]
}

#[test]
fn every_rule_is_listed_and_has_unique_name() {
    for (folder, listed) in lists() {
        let mut written = BTreeSet::new();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("contract").join(folder);
        for entry in fs::read_dir(path).expect("the folder of the rules") {
            let path = entry.expect("a file").path();
            let file = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
            for line in fs::read_to_string(&path).expect("a source file").lines() {
                if let Some(rest) = line.strip_prefix("pub async fn ") {
                    let name = rest.split('(').next().unwrap_or(rest).to_owned();
                    assert!(written.insert((file.clone(), name.clone())), "{name} is defined twice");
                }
            }
        }
        let listed: BTreeSet<_> =
            listed.into_iter().map(|(file, name)| (file.to_owned(), name.to_owned())).collect();
        assert_eq!(listed, written, "{folder}");
    }
}

/// No two store rules of the two contracts have the same name, because a self-test names rules without their crate.
#[test]
fn store_rules_have_unique_names() {
    let mut names = BTreeSet::new();
    for (folder, listed) in lists() {
        for (file, name) in listed.into_iter().filter(|_| folder.ends_with("/store")) {
            assert!(names.insert(name), "{folder}/{file}: duplicate rule {name}");
        }
    }
}
