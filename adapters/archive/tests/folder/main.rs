//! The archive in a folder.

#![allow(clippy::unwrap_used, reason = "a failed precondition ends the test")]

use handover_archive::FolderArchive;
use handover_outbox::archive::{ArchiveStorage, ArchiveStorageError};

const NAME: &str = "2026/02/04/1-9.jsonl";

fn archive() -> (tempfile::TempDir, FolderArchive) {
    let folder = tempfile::tempdir().unwrap();
    let archive = FolderArchive::open(folder.path().join("of").join("events")).unwrap();
    (folder, archive)
}

#[tokio::test]
async fn file_is_compressed_and_read_back_with_its_checksum() {
    let (folder, archive) = archive();
    let content = "{\"a\":\"二手\"}\n".repeat(1_000);
    let written = archive.write(NAME, content.as_bytes()).await.unwrap();
    assert!(written.bytes < 1_000, "{written:?}");
    assert_eq!(archive.read(NAME, &written.sha256).await.unwrap(), content.as_bytes());
    let day = folder.path().join("of/events/2026/02/04");
    let manifest = std::fs::read_to_string(day.join("1-9.jsonl.json")).unwrap();
    for part in [&format!("\"sha256\": \"{}\"", written.sha256), "\"lines\": 1000", "\"contentBytes\": 15000"]
    {
        assert!(manifest.contains(part), "{manifest}");
    }
    let mut names: Vec<_> = std::fs::read_dir(&day)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["1-9.jsonl.json", "1-9.jsonl.zst"]);
    let replaced = archive.write(NAME, b"other\n").await.unwrap();
    assert_eq!(archive.read(NAME, &replaced.sha256).await.unwrap(), b"other\n");
}

#[tokio::test]
async fn damaged_and_missing_files_are_refused() {
    let (folder, archive) = archive();
    let written = archive.write(NAME, b"content\n").await.unwrap();
    let path = folder.path().join("of/events/2026/02/04/1-9.jsonl.zst");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let damaged = archive.read(NAME, &written.sha256).await.unwrap_err();
    assert!(matches!(damaged, ArchiveStorageError::Damaged { .. }), "{damaged}");
    let missing = archive.read("2026/other.jsonl", &written.sha256).await.unwrap_err();
    assert_eq!(missing.to_string(), "there is no file 2026/other.jsonl in the archive");
}

#[tokio::test]
async fn file_that_cannot_be_written_is_an_error_and_leaves_the_earlier_one() {
    let (folder, archive) = archive();
    let written = archive.write(NAME, b"earlier\n").await.unwrap();
    // A folder takes the place of the file that is not complete yet.
    std::fs::create_dir(folder.path().join("of/events/2026/02/04/1-9.jsonl.zst.part")).unwrap();
    let refused = archive.write(NAME, b"later\n").await.unwrap_err();
    assert!(
        refused.to_string().starts_with("cannot write the file 2026/02/04/1-9.jsonl in the archive: "),
        "{refused}"
    );
    assert_eq!(archive.read(NAME, &written.sha256).await.unwrap(), b"earlier\n");
}

#[tokio::test]
async fn name_outside_of_the_folder_is_refused() {
    let (_folder, archive) = archive();
    for name in ["../a", "a/../../b", "/etc/a", "a//b", ".a", "A", ""] {
        assert!(archive.write(name, b"x").await.is_err(), "{name}");
        assert!(archive.read(name, "").await.is_err(), "{name}");
    }
}
