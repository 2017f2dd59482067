//! Rate-limit buckets: the parties that share a bucket, and the valid capacities and refill times.

use std::num::NonZeroU32;
use std::time::Duration;

use marketplace::ports::{Bucket, InvalidBucket, Party};

fn party(address: &str) -> String {
    Party::at(address.parse().unwrap()).to_string()
}

#[test]
fn mapped_ipv4_address_counts_as_ipv4_and_addresses_of_one_ipv6_64_prefix_as_one_client() {
    assert_eq!(party("192.0.2.7"), "address:192.0.2.7");
    assert_eq!(party("::ffff:192.0.2.7"), party("192.0.2.7"));
    assert_eq!(party("2001:db8:1:2:3:4:5:6"), "address:2001:db8:1:2::/64");
    assert_eq!(party("2001:db8:1:2::"), party("2001:db8:1:2:ffff:ffff:ffff:ffff"));
    assert_ne!(party("2001:db8:1:2::"), party("2001:db8:1:3::"));
}

#[test]
fn bucket_with_zero_or_too_long_refill_time_is_rejected() {
    let bucket = |capacity, us| Bucket::new(NonZeroU32::new(capacity).unwrap(), us);
    assert_eq!(bucket(1, 0), Err(InvalidBucket));
    assert_eq!(bucket(1, 1).unwrap().refill_time(), Duration::from_micros(1));
    assert_eq!(bucket(24, 3_600_000_000).unwrap().refill_time(), Bucket::MAX_REFILL_TIME);
    assert_eq!(bucket(25, 3_600_000_000), Err(InvalidBucket));
    assert_eq!(bucket(u32::MAX, u64::MAX), Err(InvalidBucket));
}
