//! Checks of relative links in Markdown: the file and the heading must exist. Links in code are ignored.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The READMEs of the workspace and of its packages, and the pages in `bootstrap/docs` and `.github`.
pub(crate) fn pages(root: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut seen: Vec<PathBuf> = entries.filter(|path| !name(path).starts_with('.')).collect();
        seen.sort();
        seen
    };
    let folders =
        |folder: &Path| entries(folder).into_iter().filter(|path| path.is_dir() && name(path) != "target");
    // Packages are up to three folders deep, so three levels are searched.
    let below = |parents: &[PathBuf]| -> Vec<PathBuf> {
        parents.iter().flat_map(|folder| folders(folder).collect::<Vec<_>>()).collect()
    };
    let first = below(&[root.to_owned()]);
    let second = below(&first);
    let third = below(&second);
    let inner = [first, second, third].concat();
    let mut pages = vec![root.join("README.md")];
    pages.extend(inner.iter().map(|folder| folder.join("README.md")).filter(|page| page.is_file()));
    for folder in ["bootstrap/docs", ".github"] {
        let docs = entries(&root.join(folder)).into_iter();
        pages.extend(docs.filter(|page| page.extension().is_some_and(|it| it == "md")));
    }
    pages
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The lines outside fenced code blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let lines = text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    lines.collect()
}

/// The anchors that GitHub generates for headings: alphanumeric characters, `_` and `-`; repeated ones get the suffixes
/// `-1`, `-2`, ...
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).into_iter().filter_map(|line| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len()).then(|| heading.strip_prefix(' ')).flatten()
    });
    let anchor = |heading: &str| {
        let kept = heading.trim().chars().filter(|it| it.is_alphanumeric() || [' ', '-', '_'].contains(it));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    let numbered = headings.map(|heading| {
        let anchor = anchor(heading);
        let count = seen.entry(anchor.clone()).or_default();
        *count += 1;
        if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
    });
    numbered.collect()
}

/// The targets of `[text](target)`.
fn targets(line: &str) -> Vec<String> {
    // Splitting a line at backticks makes every second part a code span.
    let text: String = line.split('`').step_by(2).collect();
    let after = text.split("](").skip(1);
    after.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// The broken links of this page, one line each.
pub(crate) fn broken_links(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let targets = prose(&text).into_iter().flat_map(targets);
    let wrong = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    let wrong = wrong.filter_map(|target| {
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let path = if file.is_empty() { page.to_owned() } else { page.parent()?.join(file) };
        let why = if file.starts_with('/') || !path.exists() {
            "no such file"
        } else if !anchor.is_empty()
            && !anchors(&std::fs::read_to_string(&path).ok()?).iter().any(|it| it == anchor)
        {
            "no such heading"
        } else {
            return None;
        };
        Some(format!("{}: {why}: {target}", page.display()))
    });
    wrong.collect()
}

#[test]
fn broken_links_finds_links_to_missing_files_and_headings_only() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    let other = folder.path().join("other.md");
    std::fs::write(&other, "# Going to `serve`, twice\n\n## Same\n\n## Same\n```\n# Code\n```\n").unwrap();
    let good = "# Here\n[a](other.md) [b](other.md#going-to-serve-twice) [c](other.md#same-1) [d](#here) [`e`](other.md#same)\n\
                [f](https://example.org/none) `[g](none.md)` [h](.)\n```\n[i](none.md)\n```\n";
    std::fs::write(&page, good).unwrap();
    assert_eq!(broken_links(&page), [""; 0]);
    let bad = ["none.md", "none.md#same", "#nowhere", "other.md#code", "other.md#same-2", "/etc/passwd"];
    let links: Vec<String> = bad.iter().map(|target| format!("[x]({target})")).collect();
    std::fs::write(&page, format!("{good}{}\n", links.join(" "))).unwrap();
    let found = broken_links(&page);
    assert_eq!(found.len(), bad.len(), "{found:#?}");
    for (line, target) in found.iter().zip(bad) {
        assert!(line.ends_with(&format!(": {target}")), "{line}");
    }
}
