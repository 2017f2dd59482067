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

#[test]
fn every_rule_that_is_written_is_in_the_list_and_has_a_name_of_its_own() {
    let listed: Vec<(&str, &str, &str)> =
        (handover_contract::store::RULES.iter().map(|rule| ("store", rule.file, rule.name)))
            .chain(handover_contract::broker::RULES.iter().map(|rule| ("broker", rule.file, rule.name)))
            .chain(handover_contract::limiter::RULES.iter().map(|rule| ("limiter", rule.file, rule.name)))
            .chain(handover_contract::keys::RULES.iter().map(|rule| ("keys", rule.file, rule.name)))
            .collect();
    let mut written = BTreeSet::new();
    for port in ["store", "broker", "limiter", "keys"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("contract/src").join(port);
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
