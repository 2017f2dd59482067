//! The files of the toolkit, with its tests, golden files and documents, contain no word of the marketplace and no reference to
//! a document of the project.

use std::{fs, path::PathBuf};

use super::{Outcome, files, root, rules::toolkit};

/// Words of the marketplace, in any case. The last four are its frozen texts.
const WORDS: [&str; 14] = [
    "order_id",
    "orderid",
    "product",
    "payment",
    "coupon",
    "wallet",
    "points",
    "refund",
    "seller",
    "buyer",
    "事件已处理",
    "事件类型不支持",
    "消息发送失败",
    "消息消费失败",
];

/// Strings that contain an entry of [`WORDS`] but do not belong to the marketplace, in lower case: production,
/// checkpoints, endpoints, and `products` with a following zero byte (the AMQP server property `product` and its type byte
/// `S`).
const EXCEPTIONS: [&str; 4] = ["production", "heckpoints", "ndpoints", "products\\x00"];

/// Texts in which "Order" or "orders" are a sequence and not goods: headings and first words of sentences, and the verb.
const SEQUENCES: [&str; 3] = ["Order of ", "[Order](", " orders concurrent"];

/// Paths of this repository that a user of the toolkit's crates does not have, and routes of the service.
const PATHS: [&str; 3] = ["bootstrap/docs/", ".deploy/", "/api/v1/ops"];

/// Numbers of the project's documents.
const DOCUMENTS: [&str; 5] = ["000", "001", "002", "003", "004"];

/// Tables of the toolkit; they belong to no crate.
const MIGRATIONS: &str = "migrations/outbox";

#[test]
fn toolkit_has_no_word_of_marketplace_and_names_no_document() -> Outcome {
    let root = root();
    let mut found = Vec::new();
    let mut folders = toolkit(&root)?;
    assert!(folders.len() > 8, "expected more than 8 crates of the toolkit, found {folders:?}");
    folders.push(PathBuf::from(MIGRATIONS));
    let folders: Vec<String> = folders.iter().map(|folder| format!("{}/", folder.display())).collect();
    for file in files(&root)?.iter().filter(|file| folders.iter().any(|folder| file.starts_with(folder))) {
        // The text of a licence is that of its author.
        if file.contains("/LICENSE-") {
            continue;
        }
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        let words = count(&text) + references(&text) + paths(file, &text);
        if words > 0 {
            found.push(format!("{words} in {file}"));
        }
    }
    assert!(
        found.is_empty(),
        "the toolkit must not contain words or paths of the marketplace or numbers of documents:\n{}",
        found.join("\n")
    );
    Ok(())
}

#[test]
fn words_of_marketplace_are_counted_and_ordinary_uses_of_order_are_not() {
    assert_eq!(count("order_id OrderId ORDER_CREATED a product's seller"), 5);
    assert_eq!(count("Payment, PRODUCT and a Seller; `Order`, \"Order\"; all orders, Orders"), 7);
    assert_eq!(count("in the order of ids; ORDER BY id; Ordering::Less; ordered; in production"), 0);
    assert_eq!(count("Order of the rows; a lock orders concurrent appends; Endpoints; reorders"), 0);
    assert_eq!(count("消息发送失败"), 1);
}

#[test]
fn references_to_documents_are_counted_and_ordinary_numbers_are_not() {
    assert_eq!(references("a row (000 §14.1); as in 004, with dots; seed 003: (002, 004); spec §3"), 6);
    assert_eq!(
        references("at most 100,000 rows; 10:30:00.000Z; 1.000; {SECONDS}000; 0001; RFC 7519 §4.1"),
        0
    );
}

fn count(text: &str) -> usize {
    let all = |text: &str, words: &[&str]| words.iter().map(|word| text.matches(word).count()).sum::<usize>();
    let lower = text.to_lowercase();
    all(&lower, &WORDS) - all(&lower, &EXCEPTIONS) + orders(text) - all(text, &SEQUENCES)
}

/// Number of uses of "Order" and "orders" as names, also at the beginning of a longer name (`OrderPaid`, `ORDER_PAID`), but
/// not of `OrderId`, which is in [`WORDS`].
fn orders(text: &str) -> usize {
    let is_name = |word: &str| {
        let rest = word.strip_prefix("Order");
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_uppercase))
            || word.starts_with("ORDER_")
            || word.eq_ignore_ascii_case("orders")
    };
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| is_name(word) && !word.to_lowercase().starts_with("orderid")).count()
}

/// Number of paths that only this repository or its service has, in a source file with texts for users.
fn paths(file: &str, text: &str) -> usize {
    let is_source = file.contains("/src/") && file.ends_with(".rs");
    if is_source { PATHS.iter().map(|path| text.matches(path).count()).sum() } else { 0 }
}

/// Number of references to documents of the project.
fn references(text: &str) -> usize {
    let words = text.split(|c: char| c.is_whitespace() || "()[]".contains(c));
    let documents = words.filter(|word| DOCUMENTS.contains(&word.trim_end_matches([',', '.', ':', ';'])));
    documents.count() + text.matches("spec §").count() + text.matches("design §").count()
}
