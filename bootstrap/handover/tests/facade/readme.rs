//! The program on the crate's front page compiles and prints what the page says; the README of the repository quotes an
//! example; the page for programs lists what exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::compiler::Libraries;
use crate::library::TestResult;

/// Maximum number of lines of the program that are not blank.
const MAX_LINES: usize = 30;

/// The first block of this language in the page.
fn block<'p>(page: &'p str, language: &str) -> Result<&'p str, String> {
    let (_, rest) = page.split_once(&format!("```{language}\n")).ok_or(format!("no block of {language}"))?;
    let (block, _) = rest.split_once("```").ok_or(format!("the block of {language} does not end"))?;
    Ok(block)
}

#[test]
fn program_of_the_front_page_prints_its_output() -> TestResult {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"))?;
    let program = block(&page, "rust,no_run")?;
    let lines = program.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= MAX_LINES, "the program has {lines} lines");
    let folder = tempfile::tempdir()?;
    let output = Libraries::find()?.compile(program, folder.path(), true)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(folder.path().join("program")).current_dir(folder.path()).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), block(&page, "text")?);
    Ok(())
}

#[test]
fn quotes_in_the_readme_of_the_repository_are_in_the_example() -> TestResult {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = crate_folder.join("../../README.md");
    if !readme.is_file() {
        println!("skipped: this package is outside of its repository");
        return Ok(());
    }
    let readme = fs::read_to_string(readme)?;
    let example = fs::read_to_string(crate_folder.join("examples/library.rs"))?;
    let quoted = block(&readme, "rust")?;
    for part in quoted.split("// ...\n") {
        assert!(example.contains(part.trim()), "not in examples/library.rs:\n{part}");
    }
    Ok(())
}

#[test]
fn every_path_of_llms_txt_exists_and_every_guide_and_example_is_listed() -> TestResult {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(crate_folder.join("llms.txt"))?;
    let paths: Vec<&str> =
        page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(path, _)| path).collect();
    for path in &paths {
        assert!(crate_folder.join(path).is_file(), "{path} does not exist");
    }
    for (folder, extension) in [("src/guide", "md"), ("examples", "rs")] {
        for entry in fs::read_dir(crate_folder.join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let path = format!("{folder}/{name}");
            let is_page = name.ends_with(extension) && name != "common.rs";
            assert!(!is_page || paths.contains(&path.as_str()), "{path} is not listed");
        }
    }
    Ok(())
}

#[test]
fn table_of_features_lists_every_feature_of_the_package() -> TestResult {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(crate_folder.join("README.md"))?;
    let (_, section) = page.split_once("## Features\n").ok_or("no section about features")?;
    let (section, _) = section.split_once("\n## ").ok_or("the section does not end")?;
    let row = |line: &str| Some(line.strip_prefix("| `")?.split_once("` |")?.0.to_owned());
    let listed: BTreeSet<String> = section.lines().filter_map(row).collect();
    let manifest = fs::read_to_string(crate_folder.join("Cargo.toml"))?;
    let (_, features) = manifest.split_once("[features]\n").ok_or("no features")?;
    let (features, _) = features.split_once("\n[").ok_or("the features do not end")?;
    let feature = |line: &str| Some(line.split_once(" = [")?.0.to_owned());
    let existing: BTreeSet<String> =
        features.lines().filter_map(feature).filter(|name| name != "default").collect();
    assert!(!existing.is_empty());
    assert_eq!(listed, existing);
    Ok(())
}

#[test]
fn front_page_links_every_guide() -> TestResult {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(crate_folder.join("README.md"))?;
    for entry in fs::read_dir(crate_folder.join("src/guide"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let guide = name.trim_end_matches(".md");
        let link = format!("https://docs.rs/handover/latest/handover/guide/{guide}/");
        assert!(page.contains(&link), "{guide} is not linked");
    }
    Ok(())
}
