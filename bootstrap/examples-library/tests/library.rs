//! The example runs, its operators' commands work on its database, and the README quotes it exactly.

mod operators;

use std::process::Command;

#[test]
fn each_lent_book_has_one_reminder_if_events_are_delivered_twice() {
    let process_output = Command::new(env!("CARGO_BIN_EXE_handover-example-library")).output().unwrap();
    let output = String::from_utf8_lossy(&process_output.stdout);
    assert!(process_output.status.success(), "{output}{}", String::from_utf8_lossy(&process_output.stderr));
    let reminders = "3 events sent twice; reminders: book 1 to ann, book 2 to ben, book 3 to ann";
    assert_eq!(output.lines().last(), Some(reminders), "{output}");
    assert!(output.contains("book 1 to ben: already lent"), "{output}");
}

#[test]
fn readme_quotes_are_in_the_example() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let example = include_str!("../src/library.rs");
    let shown: Vec<&str> =
        readme.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!shown.is_empty(), "the README does not quote the example");
    for part in shown.iter().flat_map(|block| block.split("// ...\n")) {
        assert!(example.contains(part.trim()), "not in bootstrap/examples-library/src/library.rs:\n{part}");
    }
}
