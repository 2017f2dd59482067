//! The contract suite, tested: a sound adapter passes every rule, and one that breaks a single promise fails exactly
//! the rules that state it.
//!
//! A flaw that no rule notices is a promise that nothing checks. Add a flaw with its rules when a rule is added.

#![allow(
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    reason = "a broken broker claims confirms it has not seen; a flaw changes what it changes and nothing else"
)]

mod flawed_broker;
mod flawed_store;

use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::sync::Once;

use flawed_broker::{Flaw as BrokerFlaw, FlawedBrokerRig};
use flawed_store::{Flaw as StoreFlaw, FlawedStoreRig};
use handover_tests::contract::{broker, store};
use tokio::task::JoinSet;

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

fn broken_by_store(flaw: StoreFlaw) -> BTreeSet<String> {
    let run = |rule: &store::StoreRule| {
        let rule = *rule;
        (rule.name.to_owned(), async move { (rule.run)(&FlawedStoreRig::new(flaw)).await })
    };
    in_silence(async { broken(store::RULES.iter().map(run).collect()).await })
}

fn broken_by_broker(flaw: BrokerFlaw) -> BTreeSet<String> {
    let run = |rule: &broker::BrokerRule| {
        let rule = *rule;
        (rule.name.to_owned(), async move { (rule.run)(&FlawedBrokerRig::new(flaw)).await })
    };
    in_silence(async { broken(broker::RULES.iter().map(run).collect()).await })
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

macro_rules! flaws {
    ($run:ident($flaws:ident) { $($test:ident: $flaw:ident breaks [$($rule:literal),* $(,)?])* }) => {
        $(#[test]
        fn $test() {
            fails(&$run($flaws::$flaw), &[$($rule),*]);
        })*
    };
}

#[test]
fn every_rule_that_is_written_is_in_the_list_and_has_a_name_of_its_own() {
    let listed: Vec<(&str, &str, &str)> = (store::RULES.iter().map(|rule| ("store", rule.file, rule.name)))
        .chain(broker::RULES.iter().map(|rule| ("broker", rule.file, rule.name)))
        .collect();
    let mut written = BTreeSet::new();
    for port in ["store", "broker"] {
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

flaws! { broken_by_store(StoreFlaw) {
    a_sound_store_breaks_no_rule: None breaks []
    events_are_appended_after_the_commit: EventsAreAppendedAfterTheCommit breaks []
    append_keeps_the_first_hundred_only: AppendKeepsTheFirstHundredOnly breaks []
    append_ignores_case: AppendIgnoresCase breaks []
    append_reformats_payloads: AppendReformatsPayloads breaks []
    retries_are_cut_to_milliseconds: RetriesAreCutToMilliseconds breaks []
    insert_ignores_taken_ids: InsertIgnoresTakenIds breaks []
    second_payment_in_processing_is_ignored: SecondPaymentInProcessingIsIgnored breaks []
    titles_are_trimmed: TitlesAreTrimmed breaks []
    orders_leak_to_other_tenants: OrdersLeakToOtherTenants breaks []
    pages_repeat_their_last_row: PagesRepeatTheirLastRow breaks []
    overdue_leaves_out_the_deadline: OverdueLeavesOutTheDeadline breaks []
    updates_ignore_the_version: UpdatesIgnoreTheVersion breaks []
    due_ignores_held_rows: DueIgnoresHeldRows breaks []
    due_counts_held_rows_against_the_limit: DueCountsHeldRowsAgainstTheLimit breaks []
    next_due_is_not_after_now: NextDueIsNotAfterNow breaks []
    sent_moves_failed_rows: SentMovesFailedRows breaks []
    the_fence_says_yes: TheFenceSaysYes breaks []
    record_ignores_what_is_expected: RecordIgnoresWhatIsExpected breaks []
    unapplied_forgets_failed: UnappliedForgetsFailed breaks []
    effects_are_deduplicated: EffectsAreDeduplicated breaks []
    id_blocks_overlap: IdBlocksOverlap breaks []
    forgotten_relays_live_on: ForgottenRelaysLiveOn breaks []
    ended_leases_are_not_renewed: EndedLeasesAreNotRenewed breaks []
    commit_reports_success_after_a_failure: CommitReportsSuccessAfterAFailure breaks []
    commit_rings_nobody: CommitRingsNobody breaks []
    dropped_units_commit: DroppedUnitsCommit breaks []
    products_are_written_outside_the_unit: ProductsAreWrittenOutsideTheUnit breaks []
    a_cut_begin_swallows_the_next_unit: ACutBeginSwallowsTheNextUnit breaks []
}}

flaws! { broken_by_broker(BrokerFlaw) {
    a_sound_broker_breaks_no_rule: None breaks []
    unroutable_is_confirmed: UnroutableIsConfirmed breaks []
    returns_are_attached_to_a_neighbour: ReturnsAreAttachedToANeighbour breaks []
    long_windows_lose_their_order: LongWindowsLoseTheirOrder breaks []
    headers_are_lost: HeadersAreLost breaks []
    keys_ignore_case: KeysIgnoreCase breaks []
    a_star_takes_any_number_of_words: AStarTakesAnyNumberOfWords breaks []
    prefetch_is_ignored: PrefetchIsIgnored breaks []
    requeued_is_lost: RequeuedIsLost breaks []
    requeued_goes_unmarked: RequeuedGoesUnmarked breaks []
    rejected_is_requeued: RejectedIsRequeued breaks []
    dead_letters_forget_where_they_died: DeadLettersForgetWhereTheyDied breaks []
    expiry_never_comes: ExpiryNeverComes breaks []
    expiry_is_early: ExpiryIsEarly breaks []
    closed_subscriptions_lose_what_they_had: ClosedSubscriptionsLoseWhatTheyHad breaks []
    dropped_subscriptions_keep_what_they_had: DroppedSubscriptionsKeepWhatTheyHad breaks []
    closed_subscriptions_ack_on: ClosedSubscriptionsAckOn breaks []
    other_arguments_are_accepted: OtherArgumentsAreAccepted breaks []
    queues_are_listed_backwards: QueuesAreListedBackwards breaks []
}}
