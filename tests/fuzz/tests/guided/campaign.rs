//! One run of libFuzzer on one decoder: what it is given, and what it says.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use handover_fuzz::{Decoder, dictionary};

/// An input that takes longer is a finding.
const TIMEOUT_S: u32 = 10;
/// So is one that takes more memory, in MiB.
const MEMORY: u32 = 2048;

/// A decoder with the folders of what is tried on it.
pub(crate) struct Campaign {
    program: PathBuf,
    decoder: Decoder,
    /// What led somewhere: stays for the next run.
    corpus: PathBuf,
    /// What was found.
    found: PathBuf,
}

/// How a run ended.
pub(crate) struct Ended {
    /// Whether nothing was found.
    pub(crate) success: bool,
    /// The places in the program that report when they are reached.
    pub(crate) counters: u64,
    /// How many of their edges some input reached, and in how many ways.
    coverage: (u64, u64),
    /// How many inputs are worth keeping.
    corpus: u64,
    /// How many inputs were tried.
    pub(crate) inputs: u64,
    /// What it wrote.
    pub(crate) output: String,
    kept: Option<PathBuf>,
}

impl Campaign {
    /// With its samples in its corpus, and its dictionary beside it.
    pub(crate) fn of(decoder: &Decoder) -> Campaign {
        let program = std::env::var_os("HANDOVER_FUZZ").map(PathBuf::from);
        let program = program.expect("HANDOVER_FUZZ names no program: run `tests/run --long fuzz`");
        // In the target folder: no run begins from nothing.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
        let (corpus, found) =
            (folder.join("corpus").join(decoder.name), folder.join("found").join(decoder.name));
        for folder in [&corpus, &found] {
            fs::create_dir_all(folder).unwrap();
        }
        for (n, sample) in (decoder.samples)().into_iter().enumerate() {
            fs::write(corpus.join(format!("sample-{n}")), sample).unwrap();
        }
        let campaign = Campaign { program, decoder: *decoder, corpus, found };
        fs::write(campaign.words(), dictionary(decoder)).unwrap();
        campaign
    }

    fn words(&self) -> PathBuf {
        self.found.with_extension("dict")
    }

    /// Leaves the samples alone.
    pub(crate) fn forget(&self) {
        let learnt = fs::read_dir(&self.corpus).unwrap().chain(fs::read_dir(&self.found).unwrap());
        for file in learnt.map(|entry| entry.unwrap().path()) {
            if !file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sample-")) {
                fs::remove_file(file).unwrap();
            }
        }
    }

    /// Goes on until something is found, for no longer than this.
    pub(crate) fn run(&self, time: Duration) -> Ended {
        let output = Command::new(&self.program)
            .env("HANDOVER_DECODER", self.decoder.name)
            .arg(&self.corpus)
            .arg(format!("-max_total_time={}", time.as_secs()))
            .arg(format!("-timeout={TIMEOUT_S}"))
            .arg(format!("-rss_limit_mb={MEMORY}"))
            .arg(format!("-dict={}", self.words().display()))
            .arg(format!("-artifact_prefix={}/", self.found.display()))
            .arg("-print_final_stats=1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Ended::of(output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// What was found, and how to see it again.
    pub(crate) fn told(&self, ended: &Ended) -> String {
        let lines: Vec<&str> = ended.output.lines().collect();
        let last = lines[lines.len().saturating_sub(60)..].join("\n");
        let Some(kept) = &ended.kept else { return last };
        let (name, program, input) = (self.decoder.name, self.program.display(), kept.display());
        format!(
            "{last}\n\ninput: b\"{}\"\nagain: HANDOVER_DECODER={name} {program} {input}\n",
            ended.input().unwrap_or_default().escape_ascii()
        )
    }
}

impl Ended {
    fn of(success: bool, output: String) -> Ended {
        let number = |text: &str| text.trim().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
        let after = |mark: &str| output.rsplit_once(mark).and_then(|(_, rest)| number(rest)).unwrap_or(0);
        let counters = output.split_once("INFO: Loaded 1 modules").and_then(|(_, rest)| rest.split_once('('));
        let kept = output.rsplit_once("Test unit written to ").and_then(|(_, rest)| rest.lines().next());
        Ended {
            success,
            counters: counters.and_then(|(_, rest)| number(rest)).unwrap_or(0),
            coverage: (after(" cov: "), after(" ft: ")),
            corpus: after(" corp: "),
            inputs: after("stat::number_of_executed_units:"),
            kept: kept.map(PathBuf::from),
            output,
        }
    }

    /// The input that was found.
    pub(crate) fn input(&self) -> Option<Vec<u8>> {
        self.kept.as_ref().and_then(|kept| fs::read(kept).ok())
    }
}

impl fmt::Display for Ended {
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
