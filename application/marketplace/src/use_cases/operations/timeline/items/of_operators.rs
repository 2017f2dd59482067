//! Items about deliveries, decisions of operators and reports of the gateway.

use std::collections::BTreeMap;

use handover_events::{EventId, HistoryKind};
use handover_outbox::ports::{
    DeadLetter, DeadLetterStatus, HistoryEntry, Numbered, WebhookAttempt, WebhookDelivery,
};
use marketplace_domain::{GatewayReport, Refund};

use super::{Items, actor_of, new_item};
use crate::ports::SentRefundRequest;
use crate::use_cases::operations::timeline::item::{TimelineItem, TimelineKind};

const REPLAYED: &str = "replayed by an operator";

impl Items<'_> {
    /// Adds an item for each webhook delivery, with its state, and one for each of several attempts at it. Only for operators.
    pub(in super::super) fn of_webhook(&mut self, delivery: WebhookDelivery, attempts: Vec<WebhookAttempt>) {
        let of = match delivery.redelivery {
            0 => format!("webhook delivery {} to endpoint {}", delivery.id, delivery.endpoint),
            number => {
                format!("webhook redelivery {number} ({}) to endpoint {}", delivery.id, delivery.endpoint)
            }
        };
        for (number, attempt) in (1..).zip(attempts) {
            let status = attempt.status.map_or(String::new(), |status| format!(", HTTP {status}"));
            let what = format!("attempt {number} of webhook delivery {}{status}", delivery.id);
            let item = TimelineItem {
                status: Some(attempt.outcome.as_str()),
                detail: attempt.error,
                ..new_item(attempt.at, TimelineKind::Webhook, what)
            };
            self.push(&delivery.event_id, item);
        }
        let at = delivery.settle_time.unwrap_or(delivery.create_time);
        let item = TimelineItem {
            status: Some(delivery.state.as_str()),
            attempts: Some(delivery.attempts),
            detail: delivery.last_error,
            ..new_item(at, TimelineKind::Webhook, of)
        };
        self.push(&delivery.event_id, item);
    }

    /// Adds the deaths of an event at one consumer, its replays, and the decision of an operator. `history` is that of all events.
    pub(in super::super) fn of_dead_letter(
        &mut self,
        dead_letter: DeadLetter,
        discarded_by: Option<String>,
        history: &[HistoryEntry],
    ) {
        let Ok(event) = dead_letter.key.parse::<EventId>() else { return };
        let consumer = self.consumers.get(&dead_letter.queue).cloned();
        if consumer.as_ref().is_some_and(|consumer| self.hidden.contains(consumer)) {
            return;
        }
        let is_about = |entry: &&HistoryEntry| entry.event_id == event && entry.consumer == consumer;
        let about = history.iter().filter(is_about).filter(|_| consumer.is_some());
        let mut deaths = BTreeMap::from([(dead_letter.died_at, Some(dead_letter.reason))]);
        let mut is_replayed = false;
        for entry in about {
            match entry.kind {
                HistoryKind::Failed => {
                    deaths.entry(entry.at).or_insert_with(|| entry.detail.clone());
                }
                HistoryKind::Redriven => {
                    is_replayed = true;
                    let replay = TimelineItem {
                        consumer: consumer.clone(),
                        actor: self.for_operators(entry.detail.as_deref().map(actor_of)),
                        status: Some(DeadLetterStatus::Replaying.as_str()),
                        detail: self.for_operators(entry.detail.clone()),
                        ..new_item(entry.at, TimelineKind::DeadLetter, REPLAYED)
                    };
                    self.push(&event, replay);
                }
                HistoryKind::Retry | HistoryKind::Sent | HistoryKind::Duplicate => {}
            }
        }
        for (at, reason) in deaths {
            let parked = TimelineItem {
                consumer: consumer.clone(),
                status: Some(DeadLetterStatus::Open.as_str()),
                detail: self.for_operators(reason),
                ..new_item(at, TimelineKind::DeadLetter, "parked as dead letter")
            };
            self.push(&event, parked);
        }
        let what = match dead_letter.status {
            // There is no decision yet, or the event was dead-lettered again after the decision, so that the decision
            // is obsolete.
            DeadLetterStatus::Open => return,
            // The history has the replay, except one by an earlier version.
            DeadLetterStatus::Replaying if is_replayed => return,
            DeadLetterStatus::Replaying => REPLAYED,
            DeadLetterStatus::Replayed => "replay confirmed by the broker",
            DeadLetterStatus::Discarded => "discarded by an operator",
        };
        let decided = TimelineItem {
            consumer,
            actor: discarded_by,
            status: Some(dead_letter.status.as_str()),
            detail: self.for_operators(dead_letter.note),
            ..new_item(dead_letter.decided_at.unwrap_or(dead_letter.died_at), TimelineKind::DeadLetter, what)
        };
        self.push(&event, decided);
    }

    /// Adds an item for each report of the gateway with its present state. Its consequences have the same time and are
    /// sorted after it.
    pub(in super::super) fn of_gateway_reports(&mut self, reports: Vec<Numbered<GatewayReport>>) {
        let after_order = self.events.values().map(|row| row.id).min().unwrap_or(0);
        for Numbered { id, effect: report } in reports {
            let result = report.result.as_deref().unwrap_or("an unknown result");
            let attempt = report.attempt.filter(|_| report.refund.is_some());
            let attempt = attempt.map_or(String::new(), |attempt| format!(" of attempt {attempt}"));
            let what =
                format!("report {id} of the gateway: {} {result}{attempt}; {}", report.kind, report.outcome);
            let item = TimelineItem {
                status: Some(report.state.as_str()),
                amount: report.amount.map(|amount| amount.to_string()),
                detail: report
                    .closed
                    .map(|closed| format!("closed by {}: {}", closed.operator, closed.reason)),
                trace_id: Some(report.trace_id),
                ..new_item(report.create_time, TimelineKind::GatewayReport, what)
            };
            self.items.push(((item.at, after_order, TimelineKind::DeadLetter), item));
        }
    }

    /// Adds the requests of a refund to the gateway, also those of attempts that a retry replaced.
    pub(in super::super) fn of_refund_requests(&mut self, refund: &Refund, requests: Vec<SentRefundRequest>) {
        let after_order = self.events.values().map(|row| row.id).min().unwrap_or(0);
        let of_attempt = requests.iter().filter(|request| request.attempt == refund.attempt);
        let oldest = of_attempt.min_by_key(|request| request.version);
        // Requests that an earlier version sent, or that are beyond the limit, are only counted.
        let unlisted = oldest.map_or(refund.attempts, |request| request.number.saturating_sub(1));
        if unlisted > 0 {
            let (which, at, detail) = match oldest {
                None => ("", refund.update_time, refund.last_error.clone()),
                Some(oldest) => ("earlier requests of ", oldest.sent, None),
            };
            let what =
                format!("{which}attempt {} at refund {} sent to the gateway", refund.attempt, refund.id);
            let item = TimelineItem {
                attempts: Some(unlisted),
                detail,
                ..new_item(at, TimelineKind::Payment, what)
            };
            self.items.push(((item.at, after_order, TimelineKind::DeadLetter), item));
        }
        for SentRefundRequest { attempt, number, sent, error, .. } in requests {
            let what =
                format!("request {number} of attempt {attempt} at refund {} sent to the gateway", refund.id);
            let item = TimelineItem { detail: error, ..new_item(sent, TimelineKind::Payment, what) };
            self.items.push(((item.at, after_order, TimelineKind::DeadLetter), item));
        }
    }
}
