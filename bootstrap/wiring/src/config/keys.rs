//! All configuration keys with their defaults. A new setting starts with a line here.

/// How the text of an environment variable or a flag is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Plain text.
    Text,
    /// Plain text; a password in it is never shown.
    Url,
    /// Plain text, also if it consists of digits. Never shown.
    Secret,
    /// A TOML-like value: a number, a list, an inline table, otherwise text.
    Value,
}

/// A configuration key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// Section and name, separated by dots.
    pub(super) path: &'static str,
    /// Default, written as in an environment variable; `None` if the key has no default.
    pub(super) default: Option<&'static str>,
    pub(super) kind: Kind,
}

impl Key {
    /// `HANDOVER_SECTION__KEY`: dots become two underscores, dashes one.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.path.replace('.', "__").replace('-', "_").to_ascii_uppercase())
    }
}

/// Prefix of the program's environment variables.
pub(super) const PREFIX: &str = "HANDOVER_";

/// Variables with the prefix that are not settings: the path of the file, and the variables of `tests/run`.
pub(super) const NON_SETTINGS: [&str; 3] = ["HANDOVER_CONFIG", "HANDOVER_BIN", "HANDOVER_LONG"];

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

/// Optional text without a default, mostly file paths.
const fn optional(path: &'static str) -> Key {
    Key { path, default: None, kind: Kind::Text }
}

const fn value(path: &'static str, default: &'static str) -> Key {
    Key { path, default: Some(default), kind: Kind::Value }
}

/// All keys, in the order of the documentation.
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

/// Finds a key by its path.
pub(super) fn key(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Whether any key is below this path.
pub(super) fn is_section(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The section with the most similar name, if one is similar enough.
pub(super) fn nearest_section(unknown: &str) -> Option<&'static str> {
    let sections = KEYS.iter().flat_map(|key| key.path.match_indices('.').map(|(end, _)| &key.path[..end]));
    let similarity = |known: &str| strsim::normalized_damerau_levenshtein(known, unknown);
    let known =
        sections.map(|section| (similarity(section), section)).filter(|(score, _)| *score >= MIN_SIMILARITY);
    known.max_by(|(one, _), (two, _)| one.total_cmp(two)).map(|(_, section)| section)
}

/// Minimum similarity of a suggestion: of the whole keys, and of their names without the section.
const MIN_SIMILARITY: f64 = 0.6;
const MIN_NAME_SIMILARITY: f64 = 0.4;

/// The most similar key, if one is similar enough.
pub(super) fn nearest(unknown: &str) -> Option<&'static Key> {
    let similarity = strsim::normalized_damerau_levenshtein;
    let name = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let score = |known: &str| {
        let whole = similarity(known, unknown);
        let names = similarity(&name(known), &name(unknown));
        if !unknown.contains('.') {
            // Without a section only the names can match.
            whole.max(0.9 * names)
        } else if names >= MIN_NAME_SIMILARITY {
            whole
        } else {
            0.0
        }
    };
    let known = KEYS.iter().map(|key| (score(key.path), key)).filter(|(score, _)| *score >= MIN_SIMILARITY);
    known.max_by(|(one, _), (two, _)| one.total_cmp(two)).map(|(_, key)| key)
}

/// The key path that a variable name corresponds to, whether or not the key exists.
pub(super) fn path_of(variable: &str) -> String {
    let name = variable.strip_prefix(PREFIX).unwrap_or(variable);
    name.replace("__", ".").replace('_', "-").to_ascii_lowercase()
}
