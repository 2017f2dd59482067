//! No word of the marketplace in what the toolkit is.

use std::{fs, io, path::Path};

use super::{Outcome, root, rules::toolkit};

/// The words, beside `Order` with a capital after it.
const WORDS: [&str; 10] =
    ["order_id", "ORDER_", "product", "payment", "coupon", "wallet", "points", "refund", "seller", "buyer"];

/// What has one of them within: production, checkpoints, endpoints, and a property of AMQP servers.
const OTHERS: [&str; 4] = ["production", "heckpoints", "ndpoints", "productS"];

#[test]
fn the_toolkit_has_no_word_of_the_marketplace() -> Outcome {
    let (root, mut found) = (root(), Vec::new());
    let folders = toolkit(&root)?;
    assert!(folders.len() > 8, "the toolkit is {folders:?}");
    for folder in folders {
        find_below(&root.join(folder).join("src"), &mut found)?;
    }
    assert!(found.is_empty(), "the toolkit must not know the marketplace:\n{}", found.join("\n"));
    Ok(())
}

#[test]
fn each_word_is_counted_and_an_order_of_things_is_not() {
    assert_eq!(count("order_id OrderId ORDER_CREATED a product's seller"), 5);
    assert_eq!(count("in the order of ids; Order; Ordering::Less; ordered; in production"), 0);
}

fn count(text: &str) -> usize {
    let in_text = |words: &[&str]| words.iter().map(|word| text.matches(word).count()).sum::<usize>();
    let names = text.match_indices("Order").filter(|(at, name)| {
        text.get(at + name.len()..)
            .is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_uppercase()))
    });
    in_text(&WORDS) - in_text(&OTHERS) + names.count()
}

/// Adds the files below a path that have such words.
fn find_below(path: &Path, found: &mut Vec<String>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            find_below(&entry?.path(), found)?;
        }
        return Ok(());
    }
    let words = count(&fs::read_to_string(path)?);
    if words > 0 {
        found.push(format!("{words} in {}", path.display()));
    }
    Ok(())
}
