//! `outbox archive`, `outbox restore`, and the settings of the archive.

use serde_json::json;

use crate::program::World;

#[test]
fn archive_needs_a_folder_and_valid_settings() {
    let world = World::new();
    world.run("migrate").done();
    for command in ["outbox archive --dry-run", "outbox restore --event e-1 --reason test"] {
        world.run(command).refused(2, &["the archive is off: archive.url is not set", "set archive.url"]);
    }
    let world = world.set("HANDOVER_ARCHIVE__AFTER", "59m").set("HANDOVER_ARCHIVE__URL", "ftp://bucket");
    let settings = ["archive.after", "\"1h\" to", "archive.url", "write file:archive"];
    world.run("outbox archive").refused(2, &settings);
    for (by_type, parts) in [
        ("{ORDER_CREATE = \"90d\"}", ["for \"ORDER_CREATE\"", "did you mean \"ORDER_CREATED\"?"]),
        ("{ORDER_CREATED = \"59m\"}", ["archive.after-by-type", "set durations from \"1h\""]),
        ("90d", ["it is not a table of event types", "write {ORDER_CREATED = \"90d\"}"]),
    ] {
        World::new().set("HANDOVER_ARCHIVE__AFTER_BY_TYPE", by_type).run("outbox archive").refused(2, &parts);
    }
    let bucket = "s3://bucket/outbox?region=eu-central-1";
    let bucket = World::new().set("HANDOVER_ARCHIVE__URL", bucket).run("config show --output json").json();
    assert!(bucket.to_string().contains("s3://bucket/outbox"), "{bucket}");
}

#[test]
fn archive_of_an_empty_outbox_has_no_file_and_nothing_to_restore() {
    let world = World::new().set("HANDOVER_ARCHIVE__URL", "file:archive");
    world.run("migrate").done();
    let nothing = json!({ "dryRun": true, "events": 0, "files": 0, "bytes": 0, "kept": [], "more": false });
    assert_eq!(world.run("outbox archive --dry-run --output json").json(), nothing);
    world.run("outbox archive --older-than 1h").done();
    let list =
        world.run("outbox list --archived --aggregate-type Order --aggregate-id 7 --output json").json();
    assert_eq!(list, json!({ "items": [], "nextCursor": null }));
    for other in ["--status sent", "--oldest"] {
        assert_eq!(world.run(&format!("outbox list --archived {other}")).code, Some(2), "{other}");
    }
    let too_young = world.run("outbox archive --older-than 59m");
    assert!(
        too_young.code == Some(2) && too_young.stderr.contains("it must be at least 1h"),
        "{too_young:?}"
    );
    let files = std::fs::read_dir(world.path("archive")).map_or(0, Iterator::count);
    assert_eq!(files, 0);
    let missing = world.run("outbox restore --event e-1 --reason test");
    assert!(missing.code == Some(1) && missing.stderr.contains("archived event e-1"), "{missing:?}");
    world.run("outbox restore --aggregate Order 7 --reason test").done();
    assert_eq!(world.run("outbox restore --from 2026-01-31T08:00:00Z --reason test").code, Some(2));
    assert_eq!(world.run("outbox restore --reason test").code, Some(2));
}
