//! What can go wrong, and the dice that say when. Every fault of every port is a line in [`Fault`].

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::coverage::Coverage;
use super::dice::Dice;
use super::profile::Profile;
use super::seen::Seen;
use super::story::Line;

/// No call stalls longer, in milliseconds.
const LONGEST_STALL_MS: u64 = 6_000;

macro_rules! faults {
    ($($port:literal: { $($(#[$doc:meta])* $fault:ident $rate:literal,)* })*) => {
        /// A way in which the world misbehaves. Each port has its own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Fault { $($($(#[$doc])* $fault,)*)* }

        impl Fault {
            /// Every fault.
            pub(crate) const ALL: &'static [Fault] = &[$($(Fault::$fault,)*)*];

            /// Whose fault it is.
            pub(crate) const fn port(self) -> &'static str {
                match self { $($(Fault::$fault => $port,)*)* }
            }

            /// Its name in reports.
            pub(crate) const fn name(self) -> &'static str {
                match self { $($(Fault::$fault => stringify!($fault),)*)* }
            }

            /// How often in 1,000 opportunities it strikes at most.
            const fn rate(self) -> u64 {
                match self { $($(Fault::$fault => $rate,)*)* }
            }
        }
    };
}

faults! {
    "store": {
        /// No connection is free, or the server is away: nothing was begun.
        NoConnection 12,
        /// The statement was the victim of a deadlock: the unit is gone.
        Deadlock 15,
        /// A lock was not free in time: the unit is lost, though on MySQL it can still be written to.
        LockTimeout 8,
        /// The statement is refused, as on a full disk.
        Refused 5,
        /// A call takes up to 400 ms.
        Slow 30,
        /// A call takes longer than a lease.
        Stall 8,
        /// COMMIT failed, and nothing was committed.
        CommitLost 15,
        /// The connection was lost in COMMIT, which had happened.
        CommitUnknownApplied 40,
        /// The connection was lost in COMMIT, which had not happened.
        CommitUnknownLost 15,
    }
    "broker": {
        /// The message is there, its confirm is not.
        ConfirmLost 50,
        /// Neither the message nor its confirm arrived.
        PublishLost 40,
        /// The broker could not take the message.
        Nacked 60,
        /// One message closes the channel, and with it its whole window.
        WindowRefused 20,
        /// The message arrives twice.
        Doubled 80,
        /// Confirmed, and lost all the same: a node and its disk are gone.
        LostAfterConfirm 20,
        /// Confirmed, and in the queue only much later.
        LateAfterConfirm 60,
        /// In the queue long after its publisher gave up and was told nothing.
        LateAfterGivingUp 40,
        /// No queue takes what is published, for a while.
        Unroutable 300,
        /// It cannot be reached, for a while.
        Away 300,
        /// It takes no messages, for a while; what is in its queues is still delivered.
        Blocked 250,
        /// A queue loses what is ready in it.
        Purged 60,
        /// The consumer's channel is closed; what it held is delivered again.
        ChannelClosed 20,
        /// The broker never learns of an ack or nack.
        SettlementLost 50,
        /// Deliveries come in another order.
        Reordered 60,
        /// Beside an event comes another body under its id.
        Corrupted 10,
        /// Something lies in a queue that is no event of ours.
        Litter 300,
        /// A delayed message is delivered before its time too.
        Early 100,
    }
    "clock": {
        /// A process's clock is off by up to two seconds, either way.
        Skew 400,
        /// A process's clock stands for a while.
        Freeze 120,
        /// A process's clock steps by up to five seconds, either way.
        Step 120,
        /// The database's clock steps by up to two seconds, either way.
        DatabaseStep 80,
    }
    "process": {
        /// A process is killed wherever its tasks are.
        Killed 300,
        /// A process is killed at a named point; how often, says the point.
        KilledAtPoint 1000,
        /// A process is asked to stop, does so, and starts anew.
        Restarted 120,
    }
    "client": {
        /// The client hangs up before the answer.
        HangUp 100,
        /// The client asks twice at once.
        AsksTwice 60,
    }
    "gateway": {
        /// It reports the same thing again.
        ReportedAgain 300,
        /// It reports much later.
        ReportedLate 150,
        /// It reports another amount.
        WrongAmount 60,
        /// It reports of a payment that nobody knows.
        UnknownPayment 40,
        /// It reports the opposite of what it reported before.
        Contradiction 60,
        /// Asked to pay back, it is away: nothing was taken.
        Unavailable 250,
        /// It refuses to pay back, for now.
        Refuses 150,
        /// It never answers, and has taken nothing.
        Silent 150,
        /// It never answers, and has taken the request.
        TakenInSilence 200,
        /// It answers with an error, and has taken the request.
        TakenWithError 250,
        /// It takes one request twice.
        TakenTwice 250,
        /// It answers late.
        AnswersLate 250,
        /// It does not pay back after all.
        RefundFails 400,
        /// It reports before it has answered.
        ReportedFirst 300,
        /// Its report of a refund is lost: it reports when it is asked again.
        ReportLost 400,
        /// It reports of a refund that nobody knows.
        UnknownRefund 150,
    }
    "hand": {
        /// An event of an order that was just paid never gets into the outbox: 004 calls it a row lost by hand.
        RowNeverThere 150,
        /// The outbox row of a payment that everybody has consumed is deleted.
        RowDeleted 400,
    }
    "handler": {
        /// No attempt at an order's listing succeeds, as long as there is trouble.
        Poison 300,
        /// An attempt fails once.
        Fails 30,
        /// An attempt takes longer than it may.
        TooSlow 8,
    }
}

macro_rules! crash_points {
    ($($(#[$doc:meta])* $point:ident $rate:literal,)*) => {
        /// A point at which a crash hurts most.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum CrashPoint { $($(#[$doc])* $point,)* }

        impl CrashPoint {
            /// Every point.
            pub(crate) const ALL: &'static [CrashPoint] = &[$(CrashPoint::$point,)*];

            /// Its name in reports.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(CrashPoint::$point => stringify!($point),)* }
            }

            /// How often in 1,000 times a process dies there, on a day on which it may: more where it seldom gets to.
            const fn rate(self) -> u64 {
                match self { $(CrashPoint::$point => $rate,)* }
            }
        }
    };
}

crash_points! {
    /// Events are committed and nobody was told.
    AfterCommitBeforePublish 25,
    /// The broker has the message, its confirm is on the way.
    AfterPublishBeforeConfirm 25,
    /// The confirm is here and not written down.
    AfterConfirmBeforeMark 25,
    /// It is written down and not known to be.
    AfterMark 25,
    /// The effect is committed, the delivery not acked.
    AfterEffectBeforeAck 15,
    /// An attempt is counted and not begun.
    AfterCountBeforeAttempt 150,
    /// A failed attempt is written down, its delivery not returned.
    AfterFailureBeforeNack 150,
    /// A dead letter is in the table, and still in its queue.
    AfterParkBeforeAck 300,
    /// A letter is being replayed, its message not sent.
    InReplayBeforeSending 400,
    /// The message of a replay is sent, its letter not closed.
    InReplayAfterSending 400,
    /// A sweep has found something and done nothing yet.
    InSweep 300,
    /// Partitions were taken, and the taker does not know.
    InHandover 40,
    /// Holds are being written: what they lock, commit or release is not, nor is the order that a refused lock cancels.
    InLock 20,
    /// It is written down that the gateway is asked, and it is not asked yet.
    AfterClaimBeforeGateway 200,
    /// The gateway was asked, and nothing is written down of it.
    AfterGatewayCall 200,
    /// The reaper has found old locks and done nothing yet.
    InReaper 60,
    /// The repair announces a lost event, and has not committed it.
    InRepair 300,
}

/// What all ports of a run share. Clones are the same run.
#[derive(Clone)]
pub(crate) struct Faults {
    pub(crate) dice: Dice,
    shared: Arc<Shared>,
}

struct Shared {
    rates: Vec<u64>,
    points: BTreeSet<CrashPoint>,
    recording: bool,
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
    seen: Seen,
    viewing: HashMap<tokio::task::Id, u32>,
}

/// A view that is open, and the task that opened it.
pub(crate) struct Viewing {
    task: tokio::task::Id,
    faults: Faults,
}

impl Drop for Viewing {
    fn drop(&mut self) {
        if let Some(open) = self.faults.state().viewing.get_mut(&self.task) {
            *open -= 1;
        }
    }
}

impl Faults {
    /// The faults of a run: a subset of its own, each somewhere below its greatest rate.
    pub(crate) fn new(dice: Dice, profile: Profile, recording: bool) -> Faults {
        let rate = |fault: &Fault| {
            let enabled = dice.permille(profile.share(*fault));
            // Rare and frequent: a fault that always strikes hides what one alone would do.
            let scale = dice.below(4) + 1;
            if enabled { (fault.rate() * scale).div_ceil(4) } else { 0 }
        };
        let rates = Fault::ALL.iter().map(rate).collect();
        let points = CrashPoint::ALL.iter().filter(|_| dice.permille(400)).copied().collect();
        let begun = tokio::time::Instant::now();
        let shared = Shared { rates, points, recording, begun, state: Mutex::default() };
        Faults { dice, shared: Arc::new(shared) }
    }

    /// From now on nothing goes wrong any more.
    pub(crate) fn heal(&self) {
        self.note("world", || "nothing goes wrong any more".to_owned());
        let mut state = self.state();
        state.healed = true;
        state.unroutable = false;
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.state().healed
    }

    /// Whether this fault is one of this run's at all.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.shared.rates.get(fault as usize).is_some_and(|rate| *rate > 0)
    }

    /// Whether this fault strikes now.
    pub(crate) fn strikes(&self, fault: Fault) -> bool {
        let rate = self.shared.rates.get(fault as usize).copied().unwrap_or(0);
        if rate == 0 || self.is_healed() || !self.dice.permille(rate) {
            return false;
        }
        self.state().coverage.fault(fault);
        true
    }

    /// Whether a process is killed here.
    pub(crate) fn strikes_at(&self, point: CrashPoint) -> bool {
        let possible = self.shared.points.contains(&point) && !self.is_healed();
        if !possible || !self.dice.permille(point.rate()) || !self.strikes(Fault::KilledAtPoint) {
            return false;
        }
        self.state().coverage.point(point);
        true
    }

    /// Whether no attempt at a poisoned event can succeed now.
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

    /// Waits until no call is under way any more that stalled when the trouble ended.
    pub(crate) async fn stalls_end(&self) {
        self.sleep(Duration::from_millis(LONGEST_STALL_MS)).await;
    }

    /// How long a call takes: mostly little, sometimes longer than a lease.
    pub(crate) async fn delay(&self) {
        if self.is_healed() {
            // The ports yield: tasks still take turns.
            return;
        }
        let pause = if self.strikes(Fault::Stall) {
            self.dice.millis(1_500..LONGEST_STALL_MS)
        } else if self.strikes(Fault::Slow) {
            self.dice.millis(0..400)
        } else {
            self.dice.millis(0..15)
        };
        self.sleep(pause).await;
    }

    #[allow(clippy::disallowed_methods, reason = "the simulator's own time, which is virtual")]
    pub(crate) async fn sleep(&self, pause: Duration) {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    /// A line of the run's story, if somebody reads it.
    pub(crate) fn note(&self, who: &str, what: impl FnOnce() -> String) {
        if self.shared.recording {
            let line = Line { at: self.shared.begun.elapsed(), who: who.to_owned(), what: what() };
            self.state().story.push(line);
        }
    }

    /// Whether somebody reads the story.
    pub(crate) fn is_recording(&self) -> bool {
        self.shared.recording
    }

    pub(crate) fn story(&self) -> Vec<Line> {
        std::mem::take(&mut self.state().story)
    }

    /// A promise that was broken on the way. The system may well recover; it is broken all the same.
    pub(crate) fn violation(&self, what: String) {
        self.note("oracle", || format!("BROKEN: {what}"));
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

    /// What the ports saw: to be added to, or asked.
    pub(crate) fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.state().seen)
    }

    /// The present task opens a view. It must not ask for anything else of the store, the broker's tables among it, as
    /// long as it holds one: four tasks that do so stop every read of a process with four readers.
    pub(crate) fn opens_view(&self) -> Option<Viewing> {
        let task = tokio::task::try_id()?;
        self.asks_store("a second view");
        *self.state().viewing.entry(task).or_insert(0) += 1;
        Some(Viewing { task, faults: self.clone() })
    }

    /// The present task asks for something that may need a connection.
    pub(crate) fn asks_store(&self, what: &str) {
        let Some(task) = tokio::task::try_id() else { return };
        let open = self.state().viewing.get(&task).is_some_and(|open| *open > 0);
        if open {
            self.violation(format!("a task that holds a view asked for {what}"));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
