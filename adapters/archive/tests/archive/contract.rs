//! Rules of the port `ArchiveStorage`, for every storage.

use async_trait::async_trait;
use handover_outbox::archive::{ArchiveStorage, ArchiveStorageError, probe};
use serde_json::{Value, json};

pub(crate) const NAME: &str = "2026/02/04/1-9.jsonl";

/// A storage that the rules test.
#[async_trait]
pub(crate) trait Rig {
    fn storage(&self) -> &dyn ArchiveStorage;

    /// The bytes of a stored file, read without the storage.
    async fn stored(&self, file: &str) -> Vec<u8>;

    /// Writes a file of [`NAME`], interrupted while its bytes are stored.
    async fn interrupted_write(&self, content: &[u8]) -> ArchiveStorageError;
}

/// Generates a test for each rule; `$rig` is an async function that returns a rig with an empty storage.
macro_rules! rules {
    ($rig:path) => {
        rules!($rig,
            file_is_compressed_and_read_back_with_its_checksum
            file_that_is_written_again_has_the_new_content
            file_with_another_checksum_is_damaged
            missing_file_is_reported_as_missing
            name_that_could_lead_out_of_the_archive_is_refused
            interrupted_write_leaves_the_earlier_file
            interrupted_first_write_leaves_no_file
            removed_file_is_missing
            probe_leaves_no_file
        );
    };
    ($rig:path, $($rule:ident)+) => {
        $(#[tokio::test]
        async fn $rule() {
            crate::contract::$rule(&$rig().await).await;
        })+
    };
}
pub(crate) use rules;

pub(crate) async fn file_is_compressed_and_read_back_with_its_checksum(rig: &dyn Rig) {
    let content = "{\"a\":\"二手\"}\n".repeat(1_000);
    let written = rig.storage().write(NAME, content.as_bytes()).await.unwrap();
    assert!(written.bytes < 1_000, "{written:?}");
    assert_eq!(rig.storage().read(NAME, &written.sha256).await.unwrap(), content.as_bytes());
    let stored = rig.stored(&format!("{NAME}.zst")).await;
    assert_eq!(u64::try_from(stored.len()).unwrap(), written.bytes);
    assert_eq!(zstd::decode_all(stored.as_slice()).unwrap(), content.as_bytes());
    let manifest = rig.stored(&format!("{NAME}.json")).await;
    assert_eq!(
        serde_json::from_slice::<Value>(&manifest).unwrap(),
        json!({
            "format": 1,
            "file": format!("{NAME}.zst"),
            "bytes": written.bytes,
            "sha256": written.sha256,
            "contentBytes": 15_000,
            "lines": 1_000,
        })
    );
}

pub(crate) async fn file_that_is_written_again_has_the_new_content(rig: &dyn Rig) {
    rig.storage().write(NAME, b"earlier\n").await.unwrap();
    let written = rig.storage().write(NAME, b"later\n").await.unwrap();
    assert_eq!(rig.storage().read(NAME, &written.sha256).await.unwrap(), b"later\n");
    let manifest: Value = serde_json::from_slice(&rig.stored(&format!("{NAME}.json")).await).unwrap();
    assert_eq!(manifest["sha256"], written.sha256);
}

pub(crate) async fn file_with_another_checksum_is_damaged(rig: &dyn Rig) {
    let expected = rig.storage().write(NAME, b"expected\n").await.unwrap();
    let found = rig.storage().write(NAME, b"found\n").await.unwrap();
    let damaged = rig.storage().read(NAME, &expected.sha256).await.unwrap_err();
    let why = format!("its SHA-256 is {} instead of {}", found.sha256, expected.sha256);
    assert_eq!(damaged.to_string(), format!("the file {NAME} of the archive is damaged: {why}"));
}

pub(crate) async fn missing_file_is_reported_as_missing(rig: &dyn Rig) {
    let missing = rig.storage().read(NAME, "").await.unwrap_err();
    assert_eq!(missing.to_string(), format!("there is no file {NAME} in the archive"));
}

pub(crate) async fn name_that_could_lead_out_of_the_archive_is_refused(rig: &dyn Rig) {
    for name in ["../a", "a/../../b", "/etc/a", "a//b", ".a", "A", "a%2fb", ""] {
        let refused = rig.storage().write(name, b"x").await.unwrap_err();
        assert!(refused.to_string().ends_with("hyphens, dots and slashes"), "{name}: {refused}");
        assert!(rig.storage().read(name, "").await.is_err(), "{name}");
    }
}

pub(crate) async fn interrupted_write_leaves_the_earlier_file(rig: &dyn Rig) {
    let earlier = rig.storage().write(NAME, b"earlier\n").await.unwrap();
    let later = incompressible();
    let interrupted = rig.interrupted_write(&later).await;
    assert!(matches!(interrupted, ArchiveStorageError::Unavailable { .. }), "{interrupted}");
    assert_eq!(rig.storage().read(NAME, &earlier.sha256).await.unwrap(), b"earlier\n");
    let repeated = rig.storage().write(NAME, &later).await.unwrap();
    assert_eq!(rig.storage().read(NAME, &repeated.sha256).await.unwrap(), later);
}

pub(crate) async fn interrupted_first_write_leaves_no_file(rig: &dyn Rig) {
    rig.interrupted_write(&incompressible()).await;
    let missing = rig.storage().read(NAME, "").await.unwrap_err();
    assert!(matches!(missing, ArchiveStorageError::Missing { .. }), "{missing}");
}

/// 300,000 bytes that zstd cannot compress: more than the buffers of a connection that is interrupted.
fn incompressible() -> Vec<u8> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(300_000).collect()
}

pub(crate) async fn removed_file_is_missing(rig: &dyn Rig) {
    let written = rig.storage().write(NAME, b"a\n").await.unwrap();
    rig.storage().remove(NAME).await.unwrap();
    let missing = rig.storage().read(NAME, &written.sha256).await.unwrap_err();
    assert!(matches!(missing, ArchiveStorageError::Missing { .. }), "{missing:?}");
    rig.storage().remove(NAME).await.expect("a file that does not exist counts as removed");
    let refused = rig.storage().remove("../other").await.unwrap_err();
    assert!(matches!(refused, ArchiveStorageError::Unavailable { .. }), "{refused:?}");
}

pub(crate) async fn probe_leaves_no_file(rig: &dyn Rig) {
    probe(rig.storage(), "check-1").await.unwrap();
    let missing = rig.storage().read("check-1", "").await.unwrap_err();
    assert!(matches!(missing, ArchiveStorageError::Missing { .. }), "{missing:?}");
}
