//! The example of the README runs, and the README shows it as it is.

#[tokio::test(flavor = "multi_thread")]
async fn each_lent_book_has_one_reminder_although_every_event_is_delivered_twice() {
    assert_eq!(super::run().await.unwrap(), ["book 1 to ann", "book 2 to ben", "book 3 to ann"]);
}

#[test]
fn what_the_readme_shows_of_the_example_is_in_the_example() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let example = include_str!("main.rs");
    let shown: Vec<&str> =
        readme.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!shown.is_empty(), "the README shows nothing of the example");
    for part in shown.iter().flat_map(|block| block.split("// ...\n")) {
        assert!(example.contains(part.trim()), "not in bootstrap/examples-library/src/main.rs:\n{part}");
    }
}
