//! The faults of a run, and the random decisions about when each fault occurs. Each fault is a variant of [`Fault`].

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::coverage::Coverage;
use super::observations::Observations;
use super::profile::Profile;
use super::random_numbers::RandomNumbers;
use super::story::Line;

/// Maximum duration of a stalled call, in milliseconds.
const MAX_STALL_MS: u64 = 6_000;

macro_rules! faults {
    ($($port:literal: { $($(#[$doc:meta])* $fault:ident $rate:literal,)* })*) => {
        /// A fault of a port or of an external party.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Fault { $($($(#[$doc])* $fault,)*)* }

        impl Fault {
            pub(crate) const ALL: &'static [Fault] = &[$($(Fault::$fault,)*)*];

            /// The port or party that has the fault.
            pub(crate) const fn port(self) -> &'static str {
                match self { $($(Fault::$fault => $port,)*)* }
            }

            pub(crate) const fn name(self) -> &'static str {
            match self { $($(Fault::$fault => stringify!($fault),)*)* }
            }

            /// Maximum probability that the fault occurs at a call at which it can occur, in thousandths.
            const fn rate(self) -> u64 {
                match self { $($(Fault::$fault => $rate,)*)* }
            }
        }
    };
}

faults! {
    "store": {
        /// No connection is free, or the server is unreachable: no transaction was begun.
        NoConnection 12,
        /// The statement was chosen as the victim of a deadlock: the transaction is rolled back.
        Deadlock 15,
        /// A lock timed out: the unit of work cannot be committed, although MySQL still accepts statements in it.
        LockTimeout 8,
        /// The statement fails, as with a full disk.
        Refused 5,
        /// A call takes up to 400 ms.
        Slow 30,
        /// A call takes longer than a lease.
        Stall 8,
        /// COMMIT fails, and nothing is committed.
        CommitLost 15,
        /// The connection is lost during COMMIT; the transaction was committed.
        CommitUnknownApplied 40,
        /// The connection is lost during COMMIT; the transaction was not committed.
        CommitUnknownLost 15,
    }
    "broker": {
        /// The message is stored, its confirm is lost.
        ConfirmLost 50,
        /// Message and confirm are lost.
        PublishLost 40,
        /// The broker nacks the message.
        Nacked 60,
        /// One message closes the channel, so the whole window fails.
        WindowRefused 20,
        /// The message is stored twice.
        Duplicated 80,
        /// The message is lost after its confirm, as when a node loses its disk.
        LostAfterConfirm 20,
        /// The message reaches its queue long after its confirm.
        LateAfterConfirm 60,
        /// The message reaches its queue long after the confirm timed out.
        LateAfterTimeout 40,
        /// All messages are returned as unroutable, for a while.
        Unroutable 300,
        /// The broker is unreachable, for a while.
        Unreachable 300,
        /// The broker blocks publishers, for a while; it still delivers.
        Blocked 250,
        /// A queue loses its ready messages.
        Purged 60,
        /// The consumer's channel is closed; its unacknowledged deliveries are redelivered.
        ChannelClosed 20,
        /// An ack or nack is lost.
        SettlementLost 50,
        /// Deliveries are reordered.
        Reordered 60,
        /// A second message with the same id and another body is published.
        Corrupted 10,
        /// A queue contains a message that is not one of the application's events.
        ForeignMessage 300,
        /// A copy of a delayed message is delivered before its time.
        Early 100,
    }
    "clock": {
        /// The clock of a process is wrong by up to two seconds.
        Skew 400,
        /// The clock of a process stops for a while.
        Freeze 120,
        /// The clock of a process steps by up to five seconds.
        Step 120,
        /// The clock of the database steps.
        DatabaseStep 80,
    }
    "process": {
        /// A process is killed at a random time.
        Killed 300,
        /// A process is killed at a named crash point, which has its own rate.
        KilledAtPoint 1000,
        /// A process is stopped cleanly and started again.
        Restarted 120,
    }
    "client": {
        /// The client disconnects before the response.
        Disconnect 100,
        /// The client sends the same request twice at the same time.
        ConcurrentRepeat 60,
    }
    "gateway": {
        /// A report is sent again.
        ReportedAgain 300,
        /// A report is sent late.
        ReportedLate 150,
        /// A report has a wrong amount.
        WrongAmount 60,
        /// A report names an unknown payment.
        UnknownPayment 40,
        /// A report contradicts an earlier one.
        Contradiction 60,
        /// The gateway is unavailable for a refund request.
        Unavailable 250,
        /// The gateway refuses a refund request for now.
        RefundRefused 150,
        /// A refund request gets no response, and it was not accepted.
        NoResponse 150,
        /// A refund request gets no response, although it was accepted.
        AcceptedNoResponse 200,
        /// A refund request gets an error response, although it was accepted.
        AcceptedWithError 250,
        /// A refund request is accepted twice.
        AcceptedTwice 250,
        /// The response to a refund request is late.
        ResponseLate 250,
        /// The refund fails.
        RefundFails 400,
        /// The report is sent before the response to the refund request.
        ReportedBeforeResponse 300,
        /// The report of a refund is lost; it is sent when the request is repeated.
        ReportLost 400,
        /// A report names an unknown refund.
        UnknownRefund 150,
    }
    "manual-sql": {
        /// The outbox row of an ORDER_PAID is never inserted (004: a row lost through manual SQL).
        RowNeverInserted 150,
        /// The outbox row of an ORDER_PAID is deleted after all consumers have applied it.
        RowDeleted 400,
    }
    "handler": {
        /// During the fault phase every attempt to change the listing of certain orders fails.
        Poison 300,
        /// One attempt fails.
        Fails 30,
        /// An attempt exceeds its time limit.
        TooSlow 8,
    }
}

macro_rules! crash_points {
    ($($(#[$doc:meta])* $point:ident $rate:literal,)*) => {
        /// A critical point for a crash.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum CrashPoint { $($(#[$doc])* $point,)* }

        impl CrashPoint {
            pub(crate) const ALL: &'static [CrashPoint] = &[$(CrashPoint::$point,)*];

            pub(crate) const fn name(self) -> &'static str {
            match self { $(CrashPoint::$point => stringify!($point),)* }
            }

            /// Probability of a crash at this point, in thousandths, if the point is enabled; higher for points that
            /// are rarely reached.
            const fn rate(self) -> u64 {
                match self { $(CrashPoint::$point => $rate,)* }
            }
        }
    };
}

crash_points! {
    /// Events are committed, the relay is not notified.
    AfterCommitBeforePublish 25,
    /// The broker has the message, the confirm is not received.
    AfterPublishBeforeConfirm 25,
    /// The confirm is received, the row is not SENT.
    AfterConfirmBeforeMark 25,
    /// The row is SENT, but the relay has not received the result of the commit.
    AfterMark 25,
    /// The effect is committed, the delivery is not acknowledged.
    AfterEffectBeforeAck 15,
    /// An attempt is counted, but has not begun.
    AfterCountBeforeAttempt 150,
    /// A failed attempt is recorded, its delivery is not requeued.
    AfterFailureBeforeNack 150,
    /// A dead letter is in the table and still in its queue.
    AfterParkBeforeAck 300,
    /// A dead letter is REPLAYING, its message is not sent.
    InReplayBeforeSending 400,
    /// The message of a replay is sent, its dead letter is not REPLAYED.
    InReplayAfterSending 400,
    /// A sweep has found rows and not processed them.
    InSweep 300,
    /// Partitions are acquired, but the relay has not received the result.
    InPartitionAcquisition 40,
    /// Holds are written; the balances, coupons and order that belong to them are not.
    InLock 20,
    /// A refund request is recorded, but not sent to the gateway.
    AfterClaimBeforeGateway 200,
    /// A refund request is sent to the gateway, its result is not recorded.
    AfterGatewayCall 200,
    /// The reaper has found expired locks and not processed them.
    InReaper 60,
    /// The repair job appends a lost event and has not committed it.
    InRepair 300,
}

/// State that all ports of a run share. Clones share the state.
#[derive(Clone)]
pub(crate) struct Faults {
    pub(crate) random: RandomNumbers,
    shared: Arc<Shared>,
}

struct Shared {
    rates: Vec<u64>,
    points: BTreeSet<CrashPoint>,
    is_recorded: bool,
    begun: tokio::time::Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    healed: bool,
    unroutable: bool,
    story: Vec<Line>,
    violations: Vec<String>,
    coverage: Coverage,
    observed: Observations,
    open_views: HashMap<tokio::task::Id, u32>,
}

/// Marks a task as having an open view until this value is dropped.
pub(crate) struct OpenView {
    task: tokio::task::Id,
    faults: Faults,
}

impl Drop for OpenView {
    fn drop(&mut self) {
        if let Some(open) = self.faults.state().open_views.get_mut(&self.task) {
            *open -= 1;
        }
    }
}

impl Faults {
    /// Enables a random subset of the faults, each with a random rate up to its maximum.
    pub(crate) fn new(random: RandomNumbers, profile: Profile, is_recorded: bool) -> Faults {
        let rate = |fault: &Fault| {
            let enabled = random.permille(profile.share(*fault));
            // Rates vary: a frequent fault would hide the consequences of a single one.
            let scale = random.below(4) + 1;
            if enabled { (fault.rate() * scale).div_ceil(4) } else { 0 }
        };
        let rates = Fault::ALL.iter().map(rate).collect();
        let points = CrashPoint::ALL.iter().filter(|_| random.permille(400)).copied().collect();
        let begun = tokio::time::Instant::now();
        let shared = Shared { rates, points, is_recorded, begun, state: Mutex::default() };
        Faults { random, shared: Arc::new(shared) }
    }

    /// Ends the fault phase.
    pub(crate) fn heal(&self) {
        self.note("world", || "faults end".to_owned());
        let mut state = self.state();
        state.healed = true;
        state.unroutable = false;
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.state().healed
    }

    /// Whether this fault is enabled in this run.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.shared.rates.get(fault as usize).is_some_and(|rate| *rate > 0)
    }

    /// Decides whether this fault occurs now.
    pub(crate) fn occurs(&self, fault: Fault) -> bool {
        let rate = self.shared.rates.get(fault as usize).copied().unwrap_or(0);
        if rate == 0 || self.is_healed() || !self.random.permille(rate) {
            return false;
        }
        self.state().coverage.fault(fault);
        true
    }

    /// Decides whether the process crashes at this point.
    pub(crate) fn crashes_at(&self, point: CrashPoint) -> bool {
        let possible = self.shared.points.contains(&point) && !self.is_healed();
        if !possible || !self.random.permille(point.rate()) || !self.occurs(Fault::KilledAtPoint) {
            return false;
        }
        self.state().coverage.point(point);
        true
    }

    /// Whether attempts at poisoned events fail now.
    pub(crate) fn is_poisoned(&self) -> bool {
        let poisoned = self.has(Fault::Poison) && !self.is_healed();
        if poisoned {
            self.cover(|coverage| coverage.fault(Fault::Poison));
        }
        poisoned
    }

    pub(crate) fn set_unroutable(&self, unroutable: bool) {
        let mut state = self.state();
        state.unroutable = unroutable && !state.healed;
    }

    pub(crate) fn is_unroutable(&self) -> bool {
        self.state().unroutable
    }

    /// Waits for the end of calls that stalled before the fault phase ended.
    pub(crate) async fn wait_for_stalled_calls(&self) {
        self.sleep(Duration::from_millis(MAX_STALL_MS)).await;
    }

    /// Simulates the duration of a call: usually short, sometimes longer than a lease.
    pub(crate) async fn delay(&self) {
        if self.is_healed() {
            // No delay is needed: the fakes behind the ports yield to other tasks.
            return;
        }
        let pause = if self.occurs(Fault::Stall) {
            self.random.millis(1_500..MAX_STALL_MS)
        } else if self.occurs(Fault::Slow) {
            self.random.millis(0..400)
        } else {
            self.random.millis(0..15)
        };
        self.sleep(pause).await;
    }

    #[allow(clippy::disallowed_methods, reason = "the simulator runs on virtual time")]
    pub(crate) async fn sleep(&self, pause: Duration) {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    /// Adds a line to the log of the run, if it is recorded.
    pub(crate) fn note(&self, who: &str, what: impl FnOnce() -> String) {
        if self.shared.is_recorded {
            let line = Line { at: self.shared.begun.elapsed(), who: who.to_owned(), what: what() };
            self.state().story.push(line);
        }
    }

    /// Whether the log is recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.shared.is_recorded
    }

    pub(crate) fn story(&self) -> Vec<Line> {
        std::mem::take(&mut self.state().story)
    }

    /// Records a violation of an invariant. It counts even if the system recovers from it.
    pub(crate) fn violation(&self, what: String) {
        self.note("oracle", || format!("VIOLATION: {what}"));
        let mut state = self.state();
        if !state.violations.contains(&what) {
            state.violations.push(what);
        }
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    pub(crate) fn cover(&self, add: impl FnOnce(&mut Coverage)) {
        add(&mut self.state().coverage);
    }

    pub(crate) fn coverage(&self) -> Coverage {
        self.state().coverage.clone()
    }

    /// Accesses the observations of the ports.
    pub(crate) fn observed<T>(&self, access: impl FnOnce(&mut Observations) -> T) -> T {
        access(&mut self.state().observed)
    }

    /// Records that the current task opens a view. While a task holds a view, it must not request another connection
    /// from the store (also not for the broker's tables): with a pool of four readers, four such tasks would deadlock.
    pub(crate) fn open_view(&self) -> Option<OpenView> {
        let task = tokio::task::try_id()?;
        self.needs_connection("a second view");
        *self.state().open_views.entry(task).or_insert(0) += 1;
        Some(OpenView { task, faults: self.clone() })
    }

    /// Reports a violation if the current task holds a view when it makes a call that may need another connection.
    pub(crate) fn needs_connection(&self, what: &str) {
        let Some(task) = tokio::task::try_id() else { return };
        let open = self.state().open_views.get(&task).is_some_and(|open| *open > 0);
        if open {
            self.violation(format!("a task that holds a view requested {what}"));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
