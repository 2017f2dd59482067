//! Reasons why a command on an outbox failed, whatever the outbox was opened from.

use handover_runtime::Exit;

handover_runtime::failures! {
/// Reason why a command on an outbox failed.
pub enum CommandFailure {
    /// A value on the command line is invalid.
    Usage {
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: String,
    } => Exit::Usage,
    what: what.clone(),
    why: "the command does not accept this value",
    do: remedy.clone();

    /// A filter has a name that nothing has.
    UnknownName {
        /// Field of the filter.
        field: &'static str,
        /// The name.
        name: String,
        /// The most similar name.
        nearest: String,
    } => Exit::Usage,
    what: format!("there is no {} {name:?}", noun(field)),
    why: "neither this program nor a row has this name; names are compared byte by byte",
    do: format!("use the most similar name, {nearest:?}; `handover topology` lists event types, consumers and queues");

    /// An operation was refused.
    Refused {
        /// The reason.
        why: String,
    } => Exit::Failed,
    what: format!("refused: {why}"),
    why: "the operation is not allowed in the current state of the service; nothing was changed",
    do: "correct the cause in the first line and run the command again; otherwise report a bug";

    /// The program has no key for the secrets of webhook endpoints.
    NoWebhookKey {} => Exit::Usage,
    what: "webhooks are off: webhook.key is not set".to_owned(),
    why: "the secrets of endpoints are encrypted with this key, which is the same for all processes of a database",
    do: "set webhook.key in the configuration of every process, for example to the output of `openssl rand -hex 32`";

    /// The secrets of some webhook endpoints were not encrypted with the current key.
    NotEncrypted {
        /// Number of these endpoints.
        failed: usize,
    } => Exit::Failed,
    what: format!("the secrets of {failed} webhook endpoints were not encrypted with the current key"),
    why: "neither webhook.key nor webhook.previous-key decrypts them; the lines above name the endpoints",
    do: "set webhook.previous-key to the key that encrypted them and run the command again; if that key is lost, \
         create the endpoints again";

    /// The port cannot be used.
    NotListening {
        /// Port.
        port: u16,
        /// Why.
        reason: String,
    } => Exit::Failed,
    what: format!("cannot listen on 127.0.0.1:{port}: {reason}"),
    why: "the command receives requests on this port",
    do: "choose another port with --port; --port 0 selects any free one";

    /// The program archives no events.
    NoArchive {} => Exit::Usage,
    what: "the archive is off: archive.url is not set".to_owned(),
    why: "the command needs the files of the archive, whose place is the same for all processes of a database",
    do: "set archive.url in the configuration of every process, for example to file:/srv/archive";

    /// The files of the archive could not be used.
    Archive {
        /// The reason.
        why: String,
    } => Exit::Unavailable,
    what: why.clone(),
    why: "the command needs the files of archive.url; no event is lost: it is in the outbox or in a file",
    do: "check that archive.url names the folder or bucket that every process uses, its rights and its free space, and \
         run the command again";

    /// Some dead letters were not replayed.
    NotReplayed {
        /// Number of dead letters that were not replayed.
        refused: usize,
        /// Number of dead letters that the command selected.
        matched: u64,
        /// Whether the command changed nothing.
        dry_run: bool,
    } => Exit::Failed,
    what: format!("{refused} of {matched} dead letters {} replayed", was(*refused, *dry_run)),
    why: "each `refused` entry of the output above has its reason",
    do: "correct the causes and replay again, or discard the dead letters with `handover dlq discard`";

    /// The consumers of some replayed dead letters failed permanently again.
    DeadAgain {
        /// Number of these dead letters.
        dead: usize,
    } => Exit::Failed,
    what: match dead {
        1 => "1 replayed dead letter is dead again".to_owned(),
        _ => format!("{dead} replayed dead letters are dead again"),
    },
    why: "their consumers failed permanently again; each `DEAD` line of the output above has the error",
    do: "correct the causes and replay again, or discard the dead letters with `handover dlq discard`";

    /// No process that reports its settings uses the database.
    NotRunning {} => Exit::Failed,
    what: "no running process has reported its settings".to_owned(),
    why: "each `serve` reports its settings to its database every `metrics.state-interval`, and this database has no report \
          that counts",
    do: "check with `handover config show` that this command uses the database of the service, and that `serve` runs";

    /// Some dead letters were not discarded.
    NotDiscarded {
        /// Number of dead letters that were not discarded.
        refused: usize,
        /// Number of dead letters that the command selected.
        matched: u64,
        /// Whether the command changed nothing.
        dry_run: bool,
    } => Exit::Failed,
    what: format!("{refused} of {matched} dead letters {} discarded", was(*refused, *dry_run)),
    why: "each `refused` entry of the output above has its reason",
    do: "dead letters that were already decided or applied need no action; for dead letters that are being applied, \
         repeat the command later";
}
}

/// Noun for the names in a field of a filter.
fn noun(field: &str) -> &str {
    match field {
        "eventType" => "event type",
        "aggregateType" => "aggregate type",
        field => field,
    }
}

/// What did not happen to these dead letters, or would not happen after a dry run.
fn was(count: usize, dry_run: bool) -> &'static str {
    match (dry_run, count) {
        (true, _) => "cannot be",
        (false, 1) => "was not",
        (false, _) => "were not",
    }
}
