//! The faults of `faults/` match the present sources; `tests/run --long overlay` runs them.

use std::collections::BTreeSet;

use handover_simulator::Defect;
use handover_simulator::overlay::{faults, patched, workspace};

#[test]
fn each_old_text_occurs_exactly_once_in_the_sources() {
    let faults = faults().unwrap();
    assert!(faults.len() >= 40, "{} faults", faults.len());
    if let Err(error) = patched(&faults, &workspace()) {
        panic!("{error}");
    }
}

#[test]
fn readme_has_the_numbers_of_faults_and_defects() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let faults = faults().unwrap().len();
    let defects = Defect::ALL.len();
    let expected = format!(
        "it has detected {faults} faults planted in a copy of the code and each of {defects} adapter defects"
    );
    assert!(readme.contains(&expected), "{expected}");
}

#[test]
fn each_fault_is_switched_only_by_its_own_name() {
    for fault in faults().unwrap() {
        let switch = format!("is_active(\"{}\")", fault.name);
        let new: Vec<&str> = fault.changes.iter().map(|change| change.new.as_str()).collect();
        let switches = new.iter().flat_map(|new| new.matches("is_active(")).count();
        let own_switches = new.iter().flat_map(|new| new.matches(&switch)).count();
        assert!(own_switches > 0, "{}: no {switch} in {new:#?}", fault.name);
        assert_eq!(switches, own_switches, "{}: it has the switch of another fault", fault.name);
    }
}

#[test]
fn no_two_faults_are_the_same() {
    let faults = faults().unwrap();
    let texts: BTreeSet<_> = faults.iter().map(|fault| (&fault.promise, &fault.fault)).collect();
    assert_eq!(texts.len(), faults.len());
}

#[test]
fn missing_old_text_is_an_error_that_names_fault_and_file() {
    let mut faults = faults().unwrap();
    faults.truncate(1);
    let change = faults.first_mut().and_then(|fault| fault.changes.first_mut()).unwrap();
    change.old = "no such line\n".to_owned();
    let file = change.file.display().to_string();
    let error = patched(&faults, &workspace()).unwrap_err().to_string();
    assert!(
        error.contains("occurs 0 times") && error.contains(&file) && error.contains(&faults[0].name),
        "{error}"
    );
}
