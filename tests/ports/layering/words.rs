//! Words of the marketplace in what becomes the toolkit: their number per file may only fall, and a new file has none.

use std::{collections::BTreeMap, fs, io, num::ParseIntError, path::Path};

use super::{Outcome, root};

/// The words, beside `Order` with a capital after it.
const WORDS: [&str; 10] =
    ["order_id", "ORDER_", "product", "payment", "coupon", "wallet", "points", "refund", "seller", "buyer"];

/// Parts of words that have one of them within: production, checkpoints, endpoints.
const OTHERS: [&str; 3] = ["production", "heckpoints", "ndpoints"];

/// Files and folders of the toolkit's half.
const TOOLKIT: [&str; 7] = [
    "adapters/memory/src",
    "adapters/otlp/src",
    "adapters/rabbitmq/src",
    "adapters/sql/src",
    "adapters/system/src",
    "application/outbox/src",
    "domain/events/src",
];

/// What lies in those folders and belongs to the marketplace.
const MARKETPLACE: [&str; 21] = [
    "adapters/memory/src/store/assets",
    "adapters/memory/src/store/credit.rs",
    "adapters/memory/src/store/effects.rs",
    "adapters/memory/src/store/ids.rs",
    "adapters/memory/src/store/notifications.rs",
    "adapters/memory/src/store/orders.rs",
    "adapters/memory/src/store/payments.rs",
    "adapters/memory/src/store/products.rs",
    "adapters/memory/src/store/refunds.rs",
    "adapters/memory/src/store/requests.rs",
    "adapters/sql/src/store/assets",
    "adapters/sql/src/store/credit.rs",
    "adapters/sql/src/store/effects.rs",
    "adapters/sql/src/store/ids.rs",
    "adapters/sql/src/store/notifications.rs",
    "adapters/sql/src/store/orders.rs",
    "adapters/sql/src/store/payments.rs",
    "adapters/sql/src/store/products.rs",
    "adapters/sql/src/store/refunds.rs",
    "adapters/sql/src/store/requests.rs",
    "adapters/sql/src/store/sweeps.rs",
];

/// Lines `COUNT PATH`: the files that have such words still.
const COUNTS: &str = include_str!("words.txt");

#[test]
fn words_of_the_marketplace_leave_the_toolkit() -> Outcome {
    let root = root();
    let mut found = BTreeMap::new();
    for part in TOOLKIT {
        count_below(&root, part, &mut found)?;
    }
    let allowed = COUNTS.lines().filter_map(|line| line.split_once(' '));
    let allowed = allowed.map(|(count, file)| Ok((file.to_owned(), count.parse()?)));
    let allowed: BTreeMap<String, usize> = allowed.collect::<Result<_, ParseIntError>>()?;
    let listed = |counts: &BTreeMap<String, usize>| -> Vec<String> {
        counts.iter().map(|(file, count)| format!("{count} {file}")).collect()
    };
    let risen: Vec<String> = found
        .iter()
        .filter(|(file, count)| **count > allowed.get(*file).copied().unwrap_or(0))
        .map(|(file, count)| format!("{file} has {count} words of the marketplace"))
        .collect();
    assert!(risen.is_empty(), "the toolkit must not learn more of the marketplace:\n{}", risen.join("\n"));
    assert!(
        found == allowed,
        "fewer words of the marketplace than before: words.txt is now\n{}",
        listed(&found).join("\n")
    );
    Ok(())
}

#[test]
fn each_word_is_counted_and_an_order_of_things_is_not() {
    assert_eq!(count("order_id OrderId ORDER_CREATED a product's seller"), 5);
    assert_eq!(count("in the order of ids; Order; Ordering::Less; ordered; in production"), 0);
}

#[test]
fn every_part_of_the_lists_is_there() {
    for part in TOOLKIT.iter().chain(&MARKETPLACE) {
        assert!(root().join(part).exists(), "{part} is gone");
    }
}

fn count(text: &str) -> usize {
    let in_text = |words: &[&str]| words.iter().map(|word| text.matches(word).count()).sum::<usize>();
    let names = text.match_indices("Order").filter(|(at, name)| {
        text.get(at + name.len()..)
            .is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_uppercase()))
    });
    in_text(&WORDS) - in_text(&OTHERS) + names.count()
}

/// Adds the files below a path that have such words, by their paths from the root.
fn count_below(root: &Path, part: &str, found: &mut BTreeMap<String, usize>) -> io::Result<()> {
    if MARKETPLACE.contains(&part) {
        return Ok(());
    }
    let path = root.join(part);
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            let name = entry?.file_name();
            count_below(root, &format!("{part}/{}", name.to_string_lossy()), found)?;
        }
        return Ok(());
    }
    let words = count(&fs::read_to_string(path)?);
    if words > 0 {
        found.insert(part.to_owned(), words);
    }
    Ok(())
}
