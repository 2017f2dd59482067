//! Results of operator actions.

use handover_events::{AggregateId, EventId};
use handover_outbox::archive::ArchiveReport;
use handover_outbox::operations::{
    Discarded, Redriven, Refused, ReplayResult, ReplayState, Replayed, Restored,
};

use super::Listed;
use super::time::Time;
use crate::openapi::kinds;

crate::views! {
    /// Result of a redrive.
    pub RedriveView as Redriven {
        dry_run: bool,
        matched: u64,
        redriven: u64,
        skipped: u64,
        not_found: Vec<EventId>,
        more: bool,
        next_cursor: Option<String>,
        first_due: Option<Time>,
        last_due: Option<Time>,
    }
}

impl From<Redriven> for RedriveView {
    fn from(redriven: Redriven) -> RedriveView {
        RedriveView {
            dry_run: redriven.dry_run,
            matched: redriven.matched,
            redriven: redriven.redriven,
            skipped: redriven.skipped,
            not_found: redriven.not_found,
            more: redriven.more,
            next_cursor: redriven.next.map(|row| row.to_string()),
            first_due: redriven.first_due.map(Time),
            last_due: redriven.last_due.map(Time),
        }
    }
}

crate::views! {
    /// Result of a replay.
    pub ReplayView as Replayed {
        dry_run: bool,
        matched: u64,
        replayed: u64,
        refused: Vec<RefusedView>,
        not_found: Vec<String>,
        more: bool,
    }
}

crate::views! {
    RefusedView as RefusedDeadLetter {
        queue: String,
        key: String,
        why: String,
    }
}

crate::views! {
    /// What became of a replayed dead letter so far.
    pub ReplayResultView as ReplayResult {
        event_id: EventId,
        queue: String,
        consumer: String,
        /// `APPLIED`, `DEAD` if the consumer failed permanently again, or `QUEUED`.
        result: &'static str = String,
        detail: Option<String>,
    }
}

impl Listed for ReplayResultView {
    const COLUMNS: &'static [&'static str] = &["eventId", "consumer", "result", "detail"];
}

impl From<ReplayResult> for ReplayResultView {
    fn from(ReplayResult { sent, state, detail }: ReplayResult) -> ReplayResultView {
        let result = match state {
            ReplayState::Applied => "APPLIED",
            ReplayState::Dead => "DEAD",
            ReplayState::Queued => "QUEUED",
        };
        ReplayResultView { event_id: sent.event, queue: sent.queue, consumer: sent.consumer, result, detail }
    }
}

impl From<Replayed> for ReplayView {
    fn from(replayed: Replayed) -> ReplayView {
        let Replayed { dry_run, matched, replayed, refused, not_found, more, sent: _ } = replayed;
        let refused = refused.into_iter().map(RefusedView::from).collect();
        ReplayView { dry_run, matched, replayed, refused, not_found, more }
    }
}

impl From<Refused> for RefusedView {
    fn from(Refused { queue, key, why }: Refused) -> RefusedView {
        RefusedView { queue, key, why }
    }
}

crate::views! {
    /// Result of a discard.
    pub DiscardView as Discarded {
        dry_run: bool,
        matched: u64,
        discarded: u64,
        refused: Vec<RefusedView>,
        not_found: Vec<String>,
        more: bool,
    }
}

impl From<Discarded> for DiscardView {
    fn from(discarded: Discarded) -> DiscardView {
        let Discarded { dry_run, matched, discarded, refused, not_found, more } = discarded;
        let refused = refused.into_iter().map(RefusedView::from).collect();
        DiscardView { dry_run, matched, discarded, refused, not_found, more }
    }
}

crate::views! {
    /// A released aggregate.
    pub ReleaseView as Released {
        aggregate_type: String,
        aggregate_id: AggregateId = kinds::AnyAggregateId,
        released: u64,
    }
}

impl ReleaseView {
    /// `released` is the number of failed events that no longer block later events.
    pub fn new(aggregate_type: String, aggregate_id: AggregateId, released: u64) -> ReleaseView {
        ReleaseView { aggregate_type, aggregate_id, released }
    }
}

crate::views! {
    /// What was archived, or would be.
    pub ArchiveView as Archived {
        dry_run: bool,
        events: u64,
        files: u64,
        bytes: u64,
        kept: Vec<KeptView>,
        more: bool,
    }
}

crate::views! {
    /// Number of examined events that stay, for one reason.
    KeptView as KeptEvents {
        reason: String,
        events: u64,
    }
}

impl ArchiveView {
    /// The report of a run, or of a dry run.
    pub fn new(report: ArchiveReport, dry_run: bool) -> ArchiveView {
        let ArchiveReport { files, bytes, events, kept, more } = report;
        let kept =
            kept.into_iter().map(|(reason, events)| KeptView { reason: reason.as_str().to_owned(), events });
        ArchiveView { dry_run, events, files, bytes, kept: kept.collect(), more }
    }
}

crate::views! {
    /// Result of a restore.
    pub RestoreView as RestoredEvents {
        restored: u64,
        not_found: Vec<EventId>,
        more: bool,
    }
}

impl From<Restored> for RestoreView {
    fn from(Restored { restored, not_found, more }: Restored) -> RestoreView {
        RestoreView { restored, not_found, more }
    }
}
