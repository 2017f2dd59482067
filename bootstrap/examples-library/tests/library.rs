//! The example runs, its operators' commands work on its database, and its events reach an endpoint.

mod operators;
mod webhooks;

use std::process::Command;

#[test]
fn each_lent_book_has_one_reminder_if_events_are_delivered_twice() {
    let process_output = Command::new(env!("CARGO_BIN_EXE_handover-example-library")).output().unwrap();
    let output = String::from_utf8_lossy(&process_output.stdout);
    assert!(process_output.status.success(), "{output}{}", String::from_utf8_lossy(&process_output.stderr));
    let reminders = "4 events sent twice; reminders: book 1 to ann, book 2 to ben, book 3 to ann";
    assert_eq!(output.lines().last(), Some(reminders), "{output}");
    assert!(output.contains("book 1 to ben: already lent"), "{output}");
}
