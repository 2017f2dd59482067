//! The example `crash`: effects after a process has ended in the middle of its work. The other fault of the example takes
//! longer, until the leases of an attempt have expired.

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
    let output = run("after_commit")?;
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "the process ends here: after_commit\n");
    let output = run("")?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2 loans, 2 with a reminder, 0 reminders too many\n");
    Ok(())
}
