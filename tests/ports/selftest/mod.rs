//! What tests are tested with. The contract suite: a sound adapter passes every rule, and one that breaks a single promise
//! fails exactly the rules that state it. The search for canaries: it finds what is planted.
//!
//! A flaw that no rule notices is a promise that nothing checks. Add a flaw with its rules when a rule is added.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Once;

use handover_contract::Rule;
use tokio::task::JoinSet;

macro_rules! flaws {
    ($run:ident($flaws:ident) { $($test:ident: $flaw:ident breaks [$($rule:literal),* $(,)?])* }) => {
        $(#[test]
        fn $test() {
            super::fails(&$run($flaws::$flaw), &[$($rule),*]);
        })*
    };
}

mod broker;
mod canary;
mod keys;
mod limiter;
mod store;

/// The rules that an adapter breaks.
///
/// They run at once, on one thread and in virtual time: what a rule waits for in vain is given up as soon as no rule can go on.
fn broken<R: ?Sized + Send + Sync + 'static>(
    rules: &'static [Rule<R>],
    rig: impl Fn() -> Box<R> + Sync,
) -> BTreeSet<&'static str> {
    let kept = in_silence(async || {
        let mut running = JoinSet::new();
        for rule in rules {
            let rig = rig();
            running.spawn(async move {
                (rule.run)(rig.as_ref()).await;
                rule.name
            });
        }
        let mut kept = BTreeSet::new();
        while let Some(ended) = running.join_next().await {
            kept.extend(ended.ok());
        }
        kept
    });
    rules.iter().map(|rule| rule.name).filter(|name| !kept.contains(name)).collect()
}

/// Runs work in virtual time, on a thread that says nothing of the panics that are its purpose.
fn in_silence<T: Send>(work: impl AsyncFnOnce() -> T + Send) -> T {
    const SILENT: &str = "broken rule";
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name() != Some(SILENT) {
                usual(panic);
            }
        }));
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    std::thread::scope(|scope| {
        let silent = std::thread::Builder::new().name(SILENT.to_owned());
        let working = silent.spawn_scoped(scope, move || runtime.block_on(work())).expect("a thread");
        working.join().expect("rules panic in tasks of their own")
    })
}

#[track_caller]
fn fails(broken: &BTreeSet<&str>, expected: &[&str]) {
    let expected: BTreeSet<&str> = expected.iter().copied().collect();
    let unnoticed: Vec<_> = expected.difference(broken).collect();
    let falsely: Vec<_> = broken.difference(&expected).collect();
    assert!(
        unnoticed.is_empty() && falsely.is_empty(),
        "unnoticed: {unnoticed:#?}\nfalsely accused: {falsely:#?}"
    );
}

/// The lists of the rules, each with the folder of its files in `contract/`.
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
fn every_rule_that_is_written_is_in_the_list_and_has_a_name_of_its_own() {
    for (folder, listed) in lists() {
        let mut written = BTreeSet::new();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("contract").join(folder);
        for entry in fs::read_dir(path).expect("the rules are there") {
            let path = entry.expect("a file").path();
            let file = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
            for line in fs::read_to_string(&path).expect("a source file").lines() {
                if let Some(rest) = line.strip_prefix("pub async fn ") {
                    let name = rest.split('(').next().unwrap_or(rest).to_owned();
                    assert!(written.insert((file.clone(), name.clone())), "{name} is written twice");
                }
            }
        }
        let listed: BTreeSet<_> =
            listed.into_iter().map(|(file, name)| (file.to_owned(), name.to_owned())).collect();
        assert_eq!(listed, written, "{folder}");
    }
}

/// A fault names the rules that notice it without their crate.
#[test]
fn no_two_rules_of_stores_have_the_same_name() {
    let mut names = BTreeSet::new();
    for (folder, listed) in lists() {
        for (file, name) in listed.into_iter().filter(|_| folder.ends_with("/store")) {
            assert!(names.insert(name), "{folder}/{file}: there is another {name}");
        }
    }
}
