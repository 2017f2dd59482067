//! The example `crash`: effects after a process has ended in the middle of its work.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::compiler::Libraries;
use crate::library::TestResult;

#[test]
fn each_loan_has_one_reminder_after_a_crash() -> TestResult {
    let program = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/crash.rs"))?;
    let folder = tempfile::tempdir()?;
    let output = Libraries::find()?.compile(&program, folder.path(), true)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = |fault: &str| {
        let mut command = Command::new(folder.path().join("program"));
        command.current_dir(folder.path()).env("FAULT", fault).output()
    };
    for (fault, loans) in [("after_commit", 2), ("in_handler", 4)] {
        let output = run(fault)?;
        assert!(!output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("the process ends here: {fault}\n"));
        let output = run("")?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let expected = format!("{loans} loans, {loans} with a reminder, 0 reminders too many\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
    Ok(())
}
