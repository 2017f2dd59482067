//! Times of attempts.

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};

/// Delays between the attempts according to the Standard Webhooks specification, in seconds.
const DELAYS: [u64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

/// Greatest delay that a receiver can ask for.
const MAX_RETRY_AFTER: TimeDelta = TimeDelta::hours(24);

/// Shortest pause of an endpoint that asks for slower delivery.
const MIN_PAUSE: TimeDelta = TimeDelta::seconds(60);

/// The three forms of a date in HTTP (RFC 9110).
const HTTP_DATES: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// The delays of the specification.
pub(super) fn standard() -> Vec<Duration> {
    DELAYS.map(Duration::from_secs).to_vec()
}

/// The delay after this number of failed attempts, with 20 % jitter; `None` if no attempt follows. `random` is uniform.
pub(super) fn delay(delays: &[Duration], failed: u32, random: u64) -> Option<TimeDelta> {
    let delay = delays.get(usize::try_from(failed.checked_sub(1)?).ok()?)?;
    // 0.8 to 1.2, in thousandths.
    let factor = 800 + u32::try_from(random % 401).unwrap_or(200);
    TimeDelta::from_std(*delay / 1_000 * factor).ok()
}

/// The time of a header `retry-after`: a number of seconds or a date, in any of the forms of RFC 9110. At most the greatest
/// delay from now.
pub(super) fn retry_after(header: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let header = header.trim();
    let latest = now + MAX_RETRY_AFTER;
    if !header.is_empty() && header.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = header.parse().ok().and_then(TimeDelta::try_seconds);
        let asked = seconds.and_then(|seconds| now.checked_add_signed(seconds));
        return Some(asked.map_or(latest, |asked| asked.min(latest)));
    }
    let date = HTTP_DATES.iter().find_map(|format| NaiveDateTime::parse_from_str(header, format).ok())?;
    Some(date.and_utc().min(latest))
}

/// The next attempt: after the delay of the schedule, or later if the receiver asks for it, at most after 24 hours.
pub(super) fn next_attempt(
    now: DateTime<Utc>,
    delay: TimeDelta,
    asked: Option<DateTime<Utc>>,
) -> DateTime<Utc> {
    let scheduled = now + delay;
    asked.map_or(scheduled, |asked| asked.max(scheduled))
}

/// The end of the pause of an endpoint whose response asks for slower delivery; `None` for every other response.
pub(super) fn pause(status: u16, now: DateTime<Utc>, asked: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    match status {
        429 | 502 | 503 | 504 => Some(next_attempt(now, MIN_PAUSE, asked)),
        _ => None,
    }
}
