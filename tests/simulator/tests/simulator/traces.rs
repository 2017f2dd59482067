//! A seed gives the same run in every process and in every build.

use std::process::Command;

use handover_simulator::{Profile, Run, play, story};

/// Number of seeds of each profile.
const SEEDS: u64 = 50;

/// Hashes of the logs of all seeds, computed in this process.
fn hashes_of_this_process() -> Vec<String> {
    std::thread::scope(|scope| {
        let profiles = Profile::ALL.map(|profile| {
            scope.spawn(move || -> Vec<String> {
                let trace = |seed| story::trace(&play(Run { story: true, ..Run::new(seed, profile) }).story);
                (0..SEEDS).map(|seed| format!("{seed} {} {:016x}", profile.name(), trace(seed))).collect()
            })
        });
        profiles.into_iter().flat_map(|profile| profile.join().expect("a run must not panic")).collect()
    })
}

/// Hashes of the same logs, computed in another process. `HANDOVER_SIMULATE` names the program of another build
/// (`tests/run --long simulator` sets a development build); the default is the program of this build.
fn hashes_of_other_process() -> Vec<String> {
    let program =
        std::env::var_os("HANDOVER_SIMULATE").unwrap_or_else(|| env!("CARGO_BIN_EXE_simulate").into());
    let output = Command::new(program).args(["--traces", "--seeds", &SEEDS.to_string()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn seed_gives_same_run_in_every_process_and_build() {
    let here = hashes_of_this_process();
    let elsewhere = hashes_of_other_process();
    assert_eq!(here.len() as u64, SEEDS * Profile::ALL.len() as u64);
    assert_eq!(here, elsewhere);
    let different: std::collections::BTreeSet<&str> =
        here.iter().filter_map(|line| line.rsplit_once(' ')).map(|(_, trace)| trace).collect();
    assert_eq!(different.len(), here.len(), "two seeds have the same log");
}
