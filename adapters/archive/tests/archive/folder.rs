//! The archive in a folder.

use std::fs::{self, File};
use std::path::PathBuf;

use async_trait::async_trait;
use handover_archive::FolderArchive;
use handover_outbox::archive::{ArchiveStorage, ArchiveStorageError};

use crate::contract::{NAME, Rig, rules};

struct FolderRig {
    folder: tempfile::TempDir,
    archive: FolderArchive,
}

async fn rig() -> FolderRig {
    let folder = tempfile::tempdir().unwrap();
    let archive = FolderArchive::open(folder.path().join("of/events")).unwrap();
    FolderRig { folder, archive }
}

rules!(rig);

impl FolderRig {
    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join("of/events").join(file)
    }

    /// Names of the files in the folder of [`NAME`].
    fn names_of_the_day(&self) -> Vec<String> {
        let day = fs::read_dir(self.path("2026/02/04")).unwrap();
        let mut names: Vec<_> = day.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Writes content while a folder is in the place of this file before it is complete.
    async fn write_without(&self, file: &str, content: &[u8]) -> ArchiveStorageError {
        let obstacle = self.path(&format!("{file}.part"));
        fs::create_dir_all(&obstacle).unwrap();
        let failed = self.archive.write(NAME, content).await.unwrap_err();
        fs::remove_dir(&obstacle).unwrap();
        failed
    }
}

#[async_trait]
impl Rig for FolderRig {
    fn storage(&self) -> &dyn ArchiveStorage {
        &self.archive
    }

    async fn stored(&self, file: &str) -> Vec<u8> {
        fs::read(self.path(file)).unwrap()
    }

    async fn interrupted_write(&self, content: &[u8]) -> ArchiveStorageError {
        self.write_without(&format!("{NAME}.zst"), content).await
    }
}

#[tokio::test]
async fn folder_has_the_file_and_its_manifest_and_no_incomplete_file() {
    let rig = rig().await;
    // As after a crash.
    rig.archive.write(NAME, b"earlier\n").await.unwrap();
    fs::write(rig.path(&format!("{NAME}.zst.part")), b"incompl").unwrap();
    rig.archive.write(NAME, b"later\n").await.unwrap();
    assert_eq!(rig.names_of_the_day(), ["1-9.jsonl.json", "1-9.jsonl.zst"]);
}

#[tokio::test]
async fn failed_write_leaves_no_incomplete_file() {
    let rig = rig().await;
    for file in [format!("{NAME}.zst"), format!("{NAME}.json")] {
        // A folder, which no file can replace after its bytes were written.
        let obstacle = rig.path(&file);
        fs::create_dir_all(&obstacle).unwrap();
        rig.archive.write(NAME, b"content\n").await.unwrap_err();
        fs::remove_dir(&obstacle).unwrap();
        assert!(!rig.path(&format!("{file}.part")).exists(), "{file}");
    }
}

#[tokio::test]
async fn removed_file_leaves_no_incomplete_file_of_a_killed_process() {
    let rig = rig().await;
    rig.archive.write(NAME, b"content\n").await.unwrap();
    for file in ["zst", "json"] {
        fs::write(rig.path(&format!("{NAME}.{file}.part")), b"incompl").unwrap();
    }
    rig.archive.remove(NAME).await.unwrap();
    assert_eq!(rig.names_of_the_day(), [""; 0]);
}

#[tokio::test]
async fn manifest_is_written_after_its_file() {
    let rig = rig().await;
    rig.archive.write(NAME, b"earlier\n").await.unwrap();
    let manifest = rig.stored(&format!("{NAME}.json")).await;
    let failed = rig.write_without(&format!("{NAME}.json"), b"later\n").await;
    let start = format!("cannot write the file {NAME} in the archive: {}: ", rig.path("").display());
    assert!(failed.to_string().starts_with(start.trim_end_matches("/: ")), "{failed}");
    assert_eq!(rig.stored(&format!("{NAME}.json")).await, manifest);
    let file = rig.stored(&format!("{NAME}.zst")).await;
    assert_eq!(zstd::decode_all(file.as_slice()).unwrap(), b"later\n");
}

#[tokio::test]
async fn file_with_one_changed_bit_is_damaged() {
    let rig = rig().await;
    let written = rig.archive.write(NAME, b"content\n").await.unwrap();
    let path = rig.path(&format!("{NAME}.zst"));
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let damaged = rig.archive.read(NAME, &written.sha256).await.unwrap_err();
    assert!(matches!(damaged, ArchiveStorageError::Damaged { .. }), "{damaged}");
}

#[tokio::test]
async fn second_writer_is_refused_while_the_first_one_writes() {
    let rig = rig().await;
    let written = rig.archive.write(NAME, b"earlier\n").await.unwrap();
    let first = File::open(rig.path(".lock")).unwrap();
    first.lock().unwrap();
    let refused = rig.archive.write(NAME, b"later\n").await.unwrap_err();
    assert!(refused.to_string().ends_with("another process writes to this archive"), "{refused}");
    assert_eq!(rig.archive.read(NAME, &written.sha256).await.unwrap(), b"earlier\n");
    drop(first);
    rig.archive.write(NAME, b"later\n").await.unwrap();
}

/// For instance because a disk is not mounted: nothing may be reported as lost, and nothing written elsewhere.
#[tokio::test]
async fn archive_without_its_folder_is_unavailable() {
    let rig = rig().await;
    let written = rig.archive.write(NAME, b"content\n").await.unwrap();
    fs::rename(rig.path(""), rig.folder.path().join("elsewhere")).unwrap();
    let unavailable = rig.archive.read(NAME, &written.sha256).await.unwrap_err();
    assert!(matches!(unavailable, ArchiveStorageError::Unavailable { .. }), "{unavailable}");
    let unavailable = rig.archive.write(NAME, b"content\n").await.unwrap_err();
    assert!(matches!(unavailable, ArchiveStorageError::Unavailable { .. }), "{unavailable}");
    assert!(!rig.path("").exists());
}
