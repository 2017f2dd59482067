//! Every setting there is: its key, its default, what it is for. Adding one begins with a line here.

/// How the text of an environment variable or a flag is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// As it is.
    Text,
    /// As it is; a password in it is never shown.
    Url,
    /// As it is: one of digits stays text. It is never shown.
    Secret,
    /// As a value: a number, a list, an inline table, otherwise text.
    Value,
}

/// A setting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// Section and name, with dots.
    pub(super) path: &'static str,
    /// As it would stand in a variable; `None`: not set.
    pub(super) default: Option<&'static str>,
    /// How text is read.
    pub(super) kind: Kind,
}

impl Key {
    /// `HANDOVER_SECTION__KEY`: sections apart by two underscores, dashes as underscores.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.path.replace('.', "__").replace('-', "_").to_ascii_uppercase())
    }
}

/// What every variable of ours begins with.
pub(super) const PREFIX: &str = "HANDOVER_";

/// Variables with our prefix that are no settings: the path of the file, and what `tests/run` sets.
pub(super) const NO_SETTINGS: [&str; 3] = ["HANDOVER_CONFIG", "HANDOVER_BIN", "HANDOVER_LONG"];

const fn text(path: &'static str, default: &'static str) -> Key {
    Key { path, default: Some(default), kind: Kind::Text }
}

const fn url(path: &'static str, default: &'static str) -> Key {
    Key { path, default: Some(default), kind: Kind::Url }
}

const fn unset_url(path: &'static str) -> Key {
    Key { path, default: None, kind: Kind::Url }
}

const fn secret(path: &'static str) -> Key {
    Key { path, default: None, kind: Kind::Secret }
}

/// Text that need not be set; most of it is the path of a file.
const fn optional(path: &'static str) -> Key {
    Key { path, default: None, kind: Kind::Text }
}

const fn value(path: &'static str, default: &'static str) -> Key {
    Key { path, default: Some(default), kind: Kind::Value }
}

/// All of them.
pub(super) const KEYS: &[Key] = &[
    text("http.listen", "127.0.0.1:8080"),
    optional("http.ops-listen"),
    value("http.cors-origins", "[]"),
    value("http.concurrent-requests", "512"),
    value("http.idle-timeout", "75s"),
    value("http.trusted-proxies", "[]"),
    text("http.forwarded-header", "x-forwarded-for"),
    text("rate-limit.store", "local"),
    value("rate-limit.capacity", "200"),
    value("rate-limit.per-second", "200"),
    value("rate-limit.routes", "{}"),
    unset_url("redis.url"),
    optional("redis.ca-file"),
    value("redis.timeout", "50ms"),
    url("database.url", "sqlite://handover.db"),
    value("database.connections", "8"),
    optional("database.ca-file"),
    url("broker.url", "database:"),
    optional("broker.ca-file"),
    text("rabbitmq.queue-type", "quorum"),
    secret("auth.jwt-secret"),
    optional("auth.jwks-file"),
    optional("auth.audience"),
    optional("auth.issuer"),
    value("auth.leeway", "30s"),
    url("gateway.url", "sandbox:"),
    secret("gateway.secret"),
    value("gateway.sandbox-delay", "1s"),
    value("gateway.timeout", "10s"),
    value("gateway.scan-interval", "1s"),
    value("gateway.retry-base", "5s"),
    value("gateway.retry-cap", "1h"),
    value("order.timeout.pending-minutes", "15"),
    value("order.timeout.sweep-interval", "30s"),
    value("order.timeout.sweep-batch", "200"),
    value("outbox.batch", "200"),
    value("outbox.scan-interval", "5s"),
    value("outbox.retry", r#"{policy = "schedule", delays = ["5s", "30s", "2m"]}"#),
    text("outbox.on-failed", "continue"),
    text("outbox.outage", "wait"),
    value("outbox.lease", "5s"),
    value("outbox.confirm-timeout", "10s"),
    value("consumer.prefetch", "20"),
    value("consumer.retry-threshold", "3"),
    value("consumer.backoff", r#"{base = "200ms", cap = "5s"}"#),
    value("consumer.attempt-timeout", "10s"),
    value("consumer.lease", "15s"),
    value("consumer.sweep-interval", "5s"),
    value("consumer.lost-after", "60s"),
    text("idempotency.store", "database"),
    value("idempotency.lease", "40s"),
    value("idempotency.keep", "24h"),
    value("idempotency.sweep-interval", "1m"),
    value("asset.lock-timeout-minutes", "30"),
    value("asset.reaper-interval", "5m"),
    value("asset.points-per-unit", "100"),
    value("asset.earn-per-unit", "1"),
    value("consistency.scan-window-hours", "24"),
    value("consistency.interval", "2h"),
    text("log.level", "info"),
    text("log.format", "auto"),
    url("log.traces", "off"),
];

/// The key of that path.
pub(super) fn key(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Whether some key lies below that path.
pub(super) fn is_section(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The section whose name is most similar to this one, if one is similar.
pub(super) fn nearest_section(unknown: &str) -> Option<&'static str> {
    let sections = KEYS.iter().flat_map(|key| key.path.match_indices('.').map(|(end, _)| &key.path[..end]));
    let alike = |known: &str| strsim::normalized_damerau_levenshtein(known, unknown);
    let known = sections.map(|section| (alike(section), section)).filter(|(likeness, _)| *likeness >= ALIKE);
    known.max_by(|(one, _), (two, _)| one.total_cmp(two)).map(|(_, section)| section)
}

/// How alike two keys have to be for one to be taken for the other: all of them, and their names without the section.
const ALIKE: f64 = 0.6;
const ALIKE_NAME: f64 = 0.4;

/// The key that looks most like this path, if one looks like it at all.
pub(super) fn nearest(unknown: &str) -> Option<&'static Key> {
    let alike = strsim::normalized_damerau_levenshtein;
    let name = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let likeness = |known: &str| {
        let (whole, names) = (alike(known, unknown), alike(&name(known), &name(unknown)));
        if !unknown.contains('.') {
            // A key without its section still finds its way home.
            whole.max(0.9 * names)
        } else if names >= ALIKE_NAME {
            whole
        } else {
            0.0
        }
    };
    let known = KEYS.iter().map(|key| (likeness(key.path), key)).filter(|(likeness, _)| *likeness >= ALIKE);
    known.max_by(|(one, _), (two, _)| one.total_cmp(two)).map(|(_, key)| key)
}

/// The path that a variable would stand for, if there were such a key.
pub(super) fn path_of(variable: &str) -> String {
    let name = variable.strip_prefix(PREFIX).unwrap_or(variable);
    name.replace("__", ".").replace('_', "-").to_ascii_lowercase()
}
