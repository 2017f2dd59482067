//! Distribution of times, from which percentiles are read.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

/// Buckets in each doubling of the time, so that a percentile is at most 5 % above the true one.
const PER_DOUBLING: f64 = 16.0;

/// Numbers of times by their length. Distributions of several processes can be added.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Distribution {
    /// Bucket `n` has the times above `2^((n-1)/16)` and up to `2^(n/16)` milliseconds; bucket 0 those up to 1 ms.
    buckets: BTreeMap<u16, u64>,
}

impl Distribution {
    /// Adds a time; a negative one, of clocks that differ, counts as 0.
    pub fn record(&mut self, time: TimeDelta) {
        let milliseconds = time.to_std().unwrap_or_default().as_secs_f64() * 1_000.0;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
        let bucket = (milliseconds.max(1.0).log2() * PER_DOUBLING).ceil() as u16;
        *self.buckets.entry(bucket).or_default() += 1;
    }

    /// Adds the times of another distribution.
    pub fn add(&mut self, other: &Distribution) {
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.buckets.values().sum()
    }

    /// The time that at least this part of the times, between 0 and 1, do not exceed; rounded up by at most 5 %. `None`
    /// without times.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        #[allow(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        let needed = self.count() as f64 * part;
        let mut seen = 0;
        self.buckets.iter().find_map(|(bucket, count)| {
            seen += count;
            #[allow(clippy::cast_precision_loss, reason = "exact up to 2^53")]
            let is_reached = seen as f64 >= needed;
            let milliseconds = (f64::from(*bucket) / PER_DOUBLING).exp2();
            is_reached.then(|| Duration::from_secs_f64(milliseconds / 1_000.0))
        })
    }
}
