//! One run of libFuzzer on one decoder.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use handover_fuzz::{Decoder, dictionary};

/// Timeout per input in seconds; a slower input is a finding.
const TIMEOUT_S: u32 = 10;
/// Memory limit in MiB; an input that exceeds it is a finding.
const MEMORY: u32 = 2048;

/// A decoder with its corpus and findings.
pub(crate) struct Campaign {
    program: PathBuf,
    decoder: Decoder,
    /// Inputs that reach new code; kept for the next run.
    corpus: PathBuf,
    /// Inputs of findings.
    found: PathBuf,
}

pub(crate) struct RunResult {
    /// Whether there was no finding.
    pub(crate) success: bool,
    /// Number of instrumented edges in the program.
    pub(crate) counters: u64,
    /// Number of edges reached, and of features (edges with hit counts).
    coverage: (u64, u64),
    /// Number of inputs in the corpus.
    corpus: u64,
    /// Number of executed inputs.
    pub(crate) inputs: u64,
    pub(crate) output: String,
    kept: Option<PathBuf>,
}

impl Campaign {
    /// Writes the samples to the corpus, and the dictionary to a file.
    pub(crate) fn of(decoder: &Decoder) -> Campaign {
        let program = std::env::var_os("HANDOVER_FUZZ").map(PathBuf::from);
        let program = program.expect("HANDOVER_FUZZ is not set: run `tests/run --long fuzz`");
        // The corpus is in the target folder, so that it is kept for the next run.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
        let corpus = folder.join("corpus").join(decoder.name);
        let found = folder.join("found").join(decoder.name);
        for folder in [&corpus, &found] {
            fs::create_dir_all(folder).unwrap();
        }
        for (n, sample) in (decoder.samples)().into_iter().enumerate() {
            fs::write(corpus.join(format!("sample-{n}")), sample).unwrap();
        }
        let campaign = Campaign { program, decoder: *decoder, corpus, found };
        fs::write(campaign.dictionary_path(), dictionary(decoder)).unwrap();
        campaign
    }

    fn dictionary_path(&self) -> PathBuf {
        self.found.with_extension("dict")
    }

    /// Removes all inputs except the samples.
    pub(crate) fn reset(&self) {
        let files = fs::read_dir(&self.corpus).unwrap().chain(fs::read_dir(&self.found).unwrap());
        for file in files.map(|entry| entry.unwrap().path()) {
            if !file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sample-")) {
                fs::remove_file(file).unwrap();
            }
        }
    }

    /// Runs until the first finding, at most for this time.
    pub(crate) fn run(&self, time: Duration) -> RunResult {
        let output = Command::new(&self.program)
            .env("HANDOVER_DECODER", self.decoder.name)
            .arg(&self.corpus)
            .arg(format!("-max_total_time={}", time.as_secs()))
            .arg(format!("-timeout={TIMEOUT_S}"))
            .arg(format!("-rss_limit_mb={MEMORY}"))
            .arg(format!("-dict={}", self.dictionary_path().display()))
            .arg(format!("-artifact_prefix={}/", self.found.display()))
            .arg("-print_final_stats=1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        RunResult::of(output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Description of a finding, with a command to reproduce it.
    pub(crate) fn describe(&self, result: &RunResult) -> String {
        let lines: Vec<&str> = result.output.lines().collect();
        let last = lines[lines.len().saturating_sub(60)..].join("\n");
        let Some(kept) = &result.kept else { return last };
        let name = self.decoder.name;
        let program = self.program.display();
        let input = kept.display();
        format!(
            "{last}\n\ninput: b\"{}\"\nreproduce: HANDOVER_DECODER={name} {program} {input}\n",
            result.input().unwrap_or_default().escape_ascii()
        )
    }
}

impl RunResult {
    fn of(success: bool, output: String) -> RunResult {
        let number = |text: &str| text.trim().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
        let after = |mark: &str| output.rsplit_once(mark).and_then(|(_, rest)| number(rest)).unwrap_or(0);
        let counters = output.split_once("INFO: Loaded 1 modules").and_then(|(_, rest)| rest.split_once('('));
        let kept = output.rsplit_once("Test unit written to ").and_then(|(_, rest)| rest.lines().next());
        RunResult {
            success,
            counters: counters.and_then(|(_, rest)| number(rest)).unwrap_or(0),
            coverage: (after(" cov: "), after(" ft: ")),
            corpus: after(" corp: "),
            inputs: after("stat::number_of_executed_units:"),
            kept: kept.map(PathBuf::from),
            output,
        }
    }

    /// The input of the finding.
    pub(crate) fn input(&self) -> Option<Vec<u8>> {
        self.kept.as_ref().and_then(|kept| fs::read(kept).ok())
    }
}

impl fmt::Display for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seed = self.output.split_once("INFO: Seed: ").and_then(|(_, rest)| rest.lines().next());
        let (edges, features) = self.coverage;
        write!(
            f,
            "{:>9} inputs, {edges:>6} of {} edges, {features:>6} features, corpus {:>5}, seed {}",
            self.inputs,
            self.counters,
            self.corpus,
            seed.unwrap_or("unknown")
        )
    }
}
