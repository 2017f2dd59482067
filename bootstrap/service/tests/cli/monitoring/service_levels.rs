//! Rules of the service level objectives: how fast each uses its error budget, over two windows each (The Site Reliability
//! Workbook, chapter 5).

use std::time::Duration;

use handover_outbox::Severity;

use super::rule::{Case, Fires, Recording, Rule};

/// A share of failures up to the budget is within the objective.
pub(crate) struct Objective {
    /// Its part in the names of its recordings.
    name: &'static str,
    /// Begin of the names of its rules.
    rule: &'static str,
    /// Its section in the runbook.
    section: &'static str,
    /// Begin of the summary.
    what: &'static str,
    /// Allowed share of failures.
    pub(crate) budget: &'static str,
    /// Failures, and all: their sums by a function of PromQL over a window.
    failures: fn(function: &str, window: &str) -> String,
    all: fn(function: &str, window: &str) -> String,
    /// Series of a test with their increases.
    series: [(&'static str, Increase); 2],
}

pub(crate) const REQUESTS: Objective = Objective {
    name: "http_request_errors",
    rule: "HandoverRequestErrors",
    section: "request-errors",
    what: "Requests are answered with 5xx (objective: 99.9 % are not)",
    budget: "0.001",
    // Without a failed request there is no series of status 5xx.
    failures: |function, window| {
        format!("(sum({function}(handover_http_requests_total{{status=~\"5..\"}}[{window}])) or vector(0))")
    },
    all: |function, window| format!("sum({function}(handover_http_requests_total[{window}]))"),
    series: [
        ("handover_http_requests_total{status=\"500\"}", |failures, _| failures),
        ("handover_http_requests_total{status=\"201\"}", |_, successes| successes),
    ],
};

pub(crate) const EFFECTS: Objective = Objective {
    name: "late_effects",
    rule: "HandoverLateEffects",
    section: "late-effects",
    what: "Events are applied more than 60 s after their commit (objective: 99 % are applied earlier)",
    budget: "0.01",
    failures: |function, window| {
        let [all, in_time] = effects(function, window);
        format!("({all} - {in_time})")
    },
    all: |function, window| effects(function, window)[0].clone(),
    series: [
        ("handover_commit_to_effect_seconds_count{consumer=\"inventory\"}", |failures, successes| {
            failures + successes
        }),
        ("handover_commit_to_effect_seconds_bucket{consumer=\"inventory\", le=\"60\"}", |_, successes| {
            successes
        }),
    ],
};

/// The consumers whose events wait in a delay queue, as a regular expression: their effects are late by intent.
fn delayed() -> String {
    let consumers = marketplace::consumers::standard();
    let delayed =
        consumers.iter().filter(|consumer| !consumer.queue(Duration::from_secs(1)).delay().is_zero());
    let names: Vec<&str> = delayed.map(|consumer| consumer.name()).collect();
    names.join("|")
}

fn effects(function: &str, window: &str) -> [String; 2] {
    let delayed = delayed();
    let series = |suffix: &str, le: &str| {
        let name = format!("handover_commit_to_effect_seconds_{suffix}");
        format!("sum({function}({name}{{consumer!~\"{delayed}\"{le}}}[{window}]))")
    };
    [series("count", ""), series("bucket", ", le=\"60\"")]
}

/// Increase of a series per step, for numbers of failures and successes.
type Increase = fn(failures: u64, successes: u64) -> u64;

/// A rate at which the budget is used, as a multiple of the rate that uses all of it in 30 days.
struct Burn {
    name: &'static str,
    factor: &'static str,
    severity: Severity,
    long: &'static str,
    short: &'static str,
    /// Minutes between two values of a test.
    step: u64,
    /// Steps of the windows; data of a part of 3 days is enough.
    steps: [u64; 2],
}

const BURNS: [Burn; 3] = [
    Burn {
        name: "FastBurn",
        factor: "14.4",
        severity: Severity::Page,
        long: "1h",
        short: "5m",
        step: 1,
        steps: [60, 5],
    },
    Burn {
        name: "MediumBurn",
        factor: "6",
        severity: Severity::Page,
        long: "6h",
        short: "30m",
        step: 5,
        steps: [72, 6],
    },
    Burn {
        name: "SlowBurn",
        factor: "1",
        severity: Severity::Ticket,
        long: "3d",
        short: "6h",
        step: 30,
        steps: [24, 12],
    },
];

/// Failures in the long window below which no rule fires: with low traffic, a single failure is a large share.
const MIN_FAILURES: u64 = 10;

impl Objective {
    /// The series of the share of failures in this window.
    pub(crate) fn ratio(&self, window: &str) -> String {
        format!("handover:{}:ratio_rate{window}", self.name)
    }

    fn recording(&self, window: &str) -> Recording {
        let [failures, all] = [self.failures, self.all].map(|sum| sum("rate", window));
        Recording { name: self.ratio(window), expression: format!("{failures}\n/ {all}") }
    }

    fn rule(&self, burn: &Burn) -> Rule {
        let Burn { name, factor, severity, long, short, .. } = *burn;
        let limit = format!("{factor} * {}", self.budget);
        let failures = (self.failures)("increase", long);
        Rule {
            name: format!("{}{name}", self.rule),
            severity,
            expression: format!(
                "{} > {limit}\nand {} > {limit}\nand {failures} >= {MIN_FAILURES}",
                self.ratio(long),
                self.ratio(short)
            ),
            pending: None,
            keeps_firing: None,
            summary: format!("{}: {factor} times the allowed share in {long} and in {short}.", self.what),
            section: self.section.to_owned(),
            cases: vec![self.case_of_failures(burn), self.case_below_limit(burn), self.case_of_low_traffic()],
        }
    }

    /// Failures at 5.5 times the limit. The rule does not fire before the longer window exceeds the limit, and ends with the
    /// shorter one.
    fn case_of_failures(&self, burn: &Burn) -> Case {
        let [long, short] = burn.steps;
        let failing = long / 2;
        let failures = self.failures_per_step(burn) * 11 / 2;
        let phases = [(long, 0, TRAFFIC), (failing, failures, TRAFFIC - failures), (2 * short, 0, TRAFFIC)];
        let expected = [
            (long, Fires::No),
            (long + failing / 3, Fires::No),
            (long + failing * 2 / 3, Fires::Yes),
            (long + failing, Fires::Yes),
            (long + failing + 2 * short, Fires::No),
        ];
        case(self, burn.step, "starts and ends", &phases, expected)
    }

    fn case_below_limit(&self, burn: &Burn) -> Case {
        // 90 % of the limit.
        let failures = self.failures_per_step(burn) * 9 / 10;
        case(self, burn.step, "below the limit", &[(20, failures, TRAFFIC - failures)], [(20, Fires::No)])
    }

    fn case_of_low_traffic(&self) -> Case {
        let failing = MIN_FAILURES - 2;
        let phases = [(12, 0, 1), (failing, 1, 0)];
        case(self, 1, "low traffic, and the last ones fail", &phases, [(12 + failing, Fires::No)])
    }

    /// Failures per step at the limit.
    fn failures_per_step(&self, burn: &Burn) -> u64 {
        let [factor, budget] = [burn.factor, self.budget].map(|text| text.parse::<f64>().unwrap());
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
        let failures = (factor * budget * f64::from(TRAFFIC as u32)).round() as u64;
        failures
    }
}

/// Phases of some steps, with failures and successes per step.
fn case(
    objective: &Objective,
    step_minutes: u64,
    what: &'static str,
    phases: &[(u64, u64, u64)],
    expected: impl IntoIterator<Item = (u64, Fires)>,
) -> Case {
    let values = |increase: Increase| {
        let mut value = 0;
        let mut text = "0".to_owned();
        for &(steps, failures, successes) in phases {
            let step = increase(failures, successes);
            text += &format!(" {}+{step}x{}", value + step, steps - 1);
            value += step * steps;
        }
        text
    };
    let series = objective.series.map(|(series, increase)| (series.to_owned(), values(increase)));
    let at = |(steps, fires)| (format!("{}m", steps * step_minutes), fires);
    Case {
        what,
        interval: step_minutes,
        series: series.into(),
        labels: Vec::new(),
        expected: expected.into_iter().map(at).collect(),
    }
}

/// Requests or events per step of a test.
const TRAFFIC: u64 = 10_000;

/// The effects of events that wait in a delay queue are not late.
fn case_of_delayed() -> Case {
    let of = |suffix: &str| format!("handover_commit_to_effect_seconds_{suffix}");
    Case {
        what: "events of a delay queue",
        interval: 1,
        series: vec![
            (format!("{}{{consumer=\"order-timeout\"}}", of("count")), "0+1000x60".to_owned()),
            (format!("{}{{consumer=\"order-timeout\", le=\"60\"}}", of("bucket")), "0x60".to_owned()),
            (format!("{}{{consumer=\"inventory\"}}", of("count")), "0+1000x60".to_owned()),
            (format!("{}{{consumer=\"inventory\", le=\"60\"}}", of("bucket")), "0+1000x60".to_owned()),
        ],
        labels: Vec::new(),
        expected: vec![("60m".to_owned(), Fires::No)],
    }
}

/// The recordings, and the rules that read them.
pub(crate) fn service_levels() -> (Vec<Recording>, Vec<Rule>) {
    let objectives = [REQUESTS, EFFECTS];
    let windows = ["5m", "30m", "1h", "6h", "3d"];
    let recordings = objectives.iter().flat_map(|of| windows.map(|window| of.recording(window))).collect();
    let mut rules: Vec<Rule> =
        objectives.iter().flat_map(|of| BURNS.iter().map(|burn| of.rule(burn))).collect();
    rules
        .iter_mut()
        .filter(|rule| rule.section == EFFECTS.section)
        .for_each(|rule| rule.cases.push(case_of_delayed()));
    (recordings, rules)
}
