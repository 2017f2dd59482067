//! One rule per alert of the lists, and rules for what no process of the service can report itself.

use handover_outbox::state::{ALERT_ACKNOWLEDGED, ALERT_ACTIVE, ALERTS, STATE_TIME};
use handover_outbox::{Alert, Metric, Severity};

use super::rule::{Case, Fires, Rule};

/// Every alert of the service.
pub(crate) fn alerts() -> impl Iterator<Item = &'static Alert> {
    ALERTS.iter().chain(marketplace::ALERTS)
}

/// `HandoverQueueDepth` for the alert `queue-depth`.
fn rule_name(alert: &str) -> String {
    let capitalized = alert.split('-').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    format!("Handover{}", capitalized.collect::<String>())
}

/// The rule of an alert of the lists.
pub(crate) fn of_alert(alert: &'static Alert) -> Rule {
    let name = alert.name();
    let [active, acknowledged] = [ALERT_ACTIVE, ALERT_ACKNOWLEDGED]
        .map(|metric| format!("{}{{alert=\"{name}\"}}", metric.exported_name()));
    Rule {
        name: rule_name(name),
        severity: alert.severity,
        expression: format!(
            "max by (alert) ({active}) == 1\nunless on (alert) (max by (alert) ({acknowledged}) == 1)"
        ),
        pending: None,
        // While another process takes over the lead, no process exports the state.
        keeps_firing: Some("1m"),
        summary: alert.meaning.to_owned(),
        section: name.to_owned(),
        cases: vec![case_of_alert(name)],
    }
}

/// The process `a` leads at first, then `b`.
fn case_of_alert(name: &'static str) -> Case {
    let series = |metric: Metric, instance: &str| {
        format!("{}{{alert=\"{name}\", instance=\"{instance}\"}}", metric.exported_name())
    };
    let values = |text: &str| text.to_owned();
    Case {
        what: "starts, another process leads, acknowledged for 3 minutes, ends",
        interval: 1,
        series: vec![
            // Active from 2m to 13m; nobody leads at 5m.
            (series(ALERT_ACTIVE, "a"), values("0x1 1x2 stale")),
            (series(ALERT_ACTIVE, "b"), values("_x6 1x6 0x3")),
            // Acknowledged from 8m to 11m.
            (series(ALERT_ACKNOWLEDGED, "a"), values("0x4 stale")),
            (series(ALERT_ACKNOWLEDGED, "b"), values("_x6 0x1 1x2 0x5")),
        ],
        labels: vec![("alert", name)],
        expected: expected(&[
            ("1m", Fires::No),
            ("3m", Fires::Yes),
            ("5m", Fires::Yes),
            ("7m", Fires::Yes),
            ("10m", Fires::No),
            ("12m", Fires::Yes),
            ("15m", Fires::No),
        ]),
    }
}

/// Rules for what no process can report itself.
pub(crate) fn of_processes() -> Vec<Rule> {
    let state_time = STATE_TIME.exported_name();
    let of_leader = format!("{state_time}{{instance=\"a\"}}");
    vec![
        Rule {
            name: "HandoverProcessDown".to_owned(),
            severity: Severity::Ticket,
            expression: "up{job=\"handover\"} == 0".to_owned(),
            pending: Some("1m"),
            keeps_firing: None,
            summary: "Prometheus cannot read the metrics of a process: it does not run, or it does not respond.".to_owned(),
            section: "process-down".to_owned(),
            cases: vec![Case {
                what: "one of two processes is down for 10 minutes; a restart within a minute is no alert",
                interval: 1,
                series: vec![
                    ("up{job=\"handover\", instance=\"a\"}".to_owned(), "1x3 0 1x7 0x9 1x10".to_owned()),
                    ("up{job=\"handover\", instance=\"b\"}".to_owned(), "1x40".to_owned()),
                    ("up{job=\"other\", instance=\"a\"}".to_owned(), "0x40".to_owned()),
                ],
                labels: vec![("instance", "a"), ("job", "handover")],
                expected: expected(&[("4m", Fires::No), ("16m", Fires::Yes), ("26m", Fires::No)]),
            }],
        },
        Rule {
            name: "HandoverStateMissing".to_owned(),
            severity: Severity::Page,
            expression: format!("absent({state_time})"),
            pending: Some("2m"),
            keeps_firing: None,
            summary: "No process exports the state of the deployment: nobody evaluates the alerts.".to_owned(),
            section: "state-missing".to_owned(),
            cases: vec![Case {
                what: "no leader for a minute, later for 10 minutes",
                interval: 1,
                series: vec![(of_leader.clone(), "0+60x4 stale 360+60x4 stale _x9 1260+60x10".to_owned())],
                labels: Vec::new(),
                expected: expected(&[("5m", Fires::No), ("12m", Fires::No), ("18m", Fires::Yes), ("24m", Fires::No)]),
            }],
        },
        Rule {
            name: "HandoverStateOld".to_owned(),
            severity: Severity::Page,
            expression: format!("time() - max({state_time}) > 120"),
            pending: None,
            keeps_firing: None,
            summary: "The leader has not read the state of the deployment for 2 minutes: its metrics and the alerts are old."
                .to_owned(),
            section: "state-old".to_owned(),
            cases: vec![Case {
                what: "the state is not read between 2m and 7m",
                interval: 1,
                series: vec![(of_leader, "0+60x2 120x3 360+60x4".to_owned())],
                labels: Vec::new(),
                expected: expected(&[("3m", Fires::No), ("5m", Fires::Yes), ("7m", Fires::No)]),
            }],
        },
    ]
}

fn expected(fires: &[(&str, Fires)]) -> Vec<(String, Fires)> {
    fires.iter().map(|(at, fires)| ((*at).to_owned(), *fires)).collect()
}
