//! The faults of the ports and of external parties, and the crash points, each with its maximum rate.

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
            pub(crate) const fn rate(self) -> u64 {
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
        /// The message is stored, but its confirm is lost.
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
        Reordered 250,
        /// A second message with the same id and another body is published.
        Corrupted 10,
        /// A queue contains a message that is not one of the application's events.
        ForeignMessage 300,
        /// A copy of a delayed message is delivered before the delay has passed.
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
        /// The gateway sends the report of a payment again.
        ReportedAgain 300,
        /// The gateway sends the report of a payment late.
        ReportedLate 150,
        /// The gateway captures a wrong amount, and reports it.
        WrongAmount 60,
        /// The gateway captures a payment a second time, in another transaction.
        SecondCapture 60,
        /// The gateway sends a report that names an unknown payment.
        UnknownPayment 40,
        /// The gateway sends a report that contradicts an earlier report.
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
        /// The gateway accepts a refund request, and the refund fails.
        RefundFails 400,
        /// The gateway sends the report of a refund before the response to the refund request.
        ReportedBeforeResponse 300,
        /// The report of a refund is lost; it is sent when the request is repeated.
        ReportLost 400,
        /// The gateway sends a report that names an unknown refund.
        UnknownRefund 400,
    }
    "receiver": {
        /// The connection to the receiver of a webhook is refused.
        ReceiverUnreachable 150,
        /// The receiver answers 500.
        ReceiverFails 200,
        /// The receiver answers 503, which pauses the endpoint.
        ReceiverBusy 30,
        /// The receiver answers 503 with `retry-after`.
        ReceiverAsksToWait 30,
        /// The receiver answers 410, which disables the endpoint.
        ReceiverGone 15,
        /// The receiver does not answer.
        ReceiverHangs 200,
        /// The receiver answers late, possibly after the time limit.
        ReceiverLate 150,
        /// The receiver accepts the request, but its response is lost.
        ReceiverResponseLost 150,
    }
    "manual-sql": {
        /// The outbox row of an ORDER_PAID is never inserted (document 004: a row lost through manual SQL).
        RowNeverInserted 150,
        /// The outbox row of an ORDER_PAID is deleted after all consumers have applied it.
        RowDeleted 400,
    }
    "handler": {
        /// During the fault phase every attempt to change the listing of certain orders fails.
        Poison 300,
        /// One attempt of a handler fails.
        Fails 30,
        /// An attempt of a handler exceeds its time limit.
        TooSlow 8,
    }
    "archive": {
        /// The storage refuses every call, for a while.
        ArchiveUnavailable 250,
        /// A file is not stored.
        FileNotStored 500,
        /// A file is stored, but the call fails.
        FileStoredWithError 500,
        /// A file is stored incompletely, although the call succeeds.
        FileTruncated 600,
        /// A file cannot be read.
        FileUnreadable 350,
        /// A transaction of the database has been open for a long time.
        OldTransaction 300,
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
            pub(crate) const fn rate(self) -> u64 {
                match self { $(CrashPoint::$point => $rate,)* }
            }
        }
    };
}

crash_points! {
    /// Events are committed, but the relay has not been notified.
    AfterCommitBeforePublish 25,
    /// The broker has stored the message, but the relay has not received the confirm.
    AfterPublishBeforeConfirm 25,
    /// The relay has received the confirm, but the row is not SENT yet.
    AfterConfirmBeforeMark 25,
    /// The row is SENT, but the relay has not received the result of the commit.
    AfterMark 25,
    /// The effect is committed, but the delivery is not acknowledged yet.
    AfterEffectBeforeAck 15,
    /// An attempt is counted, but has not begun.
    AfterCountBeforeAttempt 150,
    /// A failed attempt is recorded, but its delivery is not requeued yet.
    AfterFailureBeforeNack 150,
    /// A dead letter is in the table and still in its queue.
    AfterParkBeforeAck 300,
    /// A dead letter is REPLAYING, but its message is not sent yet.
    InReplayBeforeSending 400,
    /// The message of a replay is sent, but the dead letter is not REPLAYED yet.
    InReplayAfterSending 400,
    /// A sweep has found rows, but has not processed them yet.
    InSweep 300,
    /// Partitions are acquired, but the relay has not received the result.
    InPartitionAcquisition 40,
    /// Holds are written, but the balances, coupons and order that belong to them are not written yet.
    InLock 20,
    /// A refund request is recorded, but not sent to the gateway.
    AfterClaimBeforeGateway 200,
    /// A refund request is sent to the gateway, but its result is not recorded yet.
    AfterGatewayCall 200,
    /// A webhook delivery is claimed, but not sent yet.
    AfterClaimBeforeRequest 40,
    /// A receiver has answered, but its answer is not recorded yet.
    AfterRequestBeforeRecord 40,
    /// The reaper has found expired locks, but has not processed them yet.
    InReaper 700,
    /// The repair job has appended a lost event, but has not committed it yet.
    InRepair 700,
    /// A file of the archive is stored, but its storage has not answered yet.
    InArchiveWrite 400,
    /// A file of the archive is read back, but not recorded yet.
    AfterFileBeforeRecord 400,
    /// A file of the archive is recorded, but its events are still in the outbox.
    AfterFileRecorded 900,
    /// Events have left the outbox, but their file is not done yet.
    AfterEventsArchived 500,
    /// Events are restored, but the operator has received no response yet.
    AfterRestore 600,
}

impl CrashPoint {
    /// Whether only a run with an archive has this point.
    pub(crate) const fn is_of_archive(self) -> bool {
        matches!(
            self,
            CrashPoint::InArchiveWrite
                | CrashPoint::AfterFileBeforeRecord
                | CrashPoint::AfterFileRecorded
                | CrashPoint::AfterEventsArchived
                | CrashPoint::AfterRestore
        )
    }
}
