//! The source of the toolkit contains no word of the marketplace.

use std::fs;

use super::{Outcome, files, root, rules::toolkit};

/// Words of the marketplace. `Order` followed by a capital letter also counts as such a word.
const WORDS: [&str; 10] =
    ["order_id", "ORDER_", "product", "payment", "coupon", "wallet", "points", "refund", "seller", "buyer"];

/// Strings that contain an entry of [`WORDS`] but do not belong to the marketplace: production, checkpoints, endpoints,
/// and `productS` (the AMQP server property `product` and its type byte `S`).
const EXCEPTIONS: [&str; 4] = ["production", "heckpoints", "ndpoints", "productS"];

#[test]
fn toolkit_has_no_word_of_marketplace() -> Outcome {
    let root = root();
    let mut found = Vec::new();
    let folders = toolkit(&root)?;
    assert!(folders.len() > 8, "expected more than 8 crates of the toolkit, found {folders:?}");
    let sources: Vec<String> = folders.iter().map(|folder| format!("{}/src/", folder.display())).collect();
    for file in files(&root)?.iter().filter(|file| sources.iter().any(|source| file.starts_with(source))) {
        let words = count(&fs::read_to_string(root.join(file))?);
        if words > 0 {
            found.push(format!("{words} in {file}"));
        }
    }
    assert!(found.is_empty(), "the toolkit must not contain words of the marketplace:\n{}", found.join("\n"));
    Ok(())
}

#[test]
fn words_of_marketplace_are_counted_and_ordinary_uses_of_order_are_not() {
    assert_eq!(count("order_id OrderId ORDER_CREATED a product's seller"), 5);
    assert_eq!(count("in the order of ids; Order; Ordering::Less; ordered; in production"), 0);
}

fn count(text: &str) -> usize {
    let in_text = |words: &[&str]| words.iter().map(|word| text.matches(word).count()).sum::<usize>();
    let names = text.match_indices("Order").filter(|(at, name)| {
        text.get(at + name.len()..)
            .is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_uppercase()))
    });
    in_text(&WORDS) - in_text(&EXCEPTIONS) + names.count()
}
