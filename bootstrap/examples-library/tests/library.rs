//! The example of the README runs, and the README shows it as it is.

use std::process::Command;

#[test]
fn each_lent_book_has_one_reminder_although_every_event_is_delivered_twice() {
    let ran = Command::new(env!("CARGO_BIN_EXE_handover-example-library")).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let reminders = "3 events sent twice; reminders: book 1 to ann, book 2 to ben, book 3 to ann";
    assert_eq!(said.lines().last(), Some(reminders), "{said}");
    assert!(said.contains("book 1 to ben: somebody has it"), "{said}");
}

#[test]
fn what_the_readme_shows_of_the_example_is_in_the_example() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let example = include_str!("../src/main.rs");
    let shown: Vec<&str> =
        readme.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!shown.is_empty(), "the README shows nothing of the example");
    for part in shown.iter().flat_map(|block| block.split("// ...\n")) {
        assert!(example.contains(part.trim()), "not in bootstrap/examples-library/src/main.rs:\n{part}");
    }
}
