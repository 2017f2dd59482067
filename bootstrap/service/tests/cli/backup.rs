//! `handover backup`: a copy of the database file of a running service.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::program::{Server, World, eventually};

/// Lists products and orders them until `stop` is set; `acknowledged` gets the id of each order.
fn place_orders(
    server: &Server,
    [seller, buyer]: &[String; 2],
    stop: &AtomicBool,
    acknowledged: &Mutex<BTreeSet<i64>>,
) {
    while !stop.load(Ordering::SeqCst) {
        let listed = server.ask(seller, "POST /api/v1/products", r#"{"title":"a lamp","price":42}"#);
        let body = format!(r#"{{"productId":{}}}"#, listed["productId"]);
        let placed = server.ask(buyer, "POST /api/v1/orders", &body);
        acknowledged.lock().unwrap().insert(placed["orderId"].as_i64().unwrap());
    }
}

#[test]
fn backup_of_running_service_has_every_acknowledged_order_and_passes_reconciliation() {
    let world = World::new();
    let server = world.serve("");
    let tokens = [world.token("--user 20"), world.token("--user 10")];
    let stop = AtomicBool::new(false);
    let acknowledged = Mutex::new(BTreeSet::new());
    let count = || acknowledged.lock().unwrap().len();
    let before = std::thread::scope(|scope| {
        let load = [(); 2].map(|()| scope.spawn(|| place_orders(&server, &tokens, &stop, &acknowledged)));
        eventually(|| count() >= 10 || load.iter().any(|load| load.is_finished()));
        let before = acknowledged.lock().unwrap().clone();
        let ran = world.run("backup copy.db");
        stop.store(true, Ordering::SeqCst);
        assert!(ran.done().contains("is copied to copy.db"), "{ran:?}");
        before
    });
    assert!(before.len() >= 10);
    for order in before {
        world.run(&format!("order timeline {order} --database sqlite://copy.db")).done();
    }
    world.run("reconcile --database sqlite://copy.db").done();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(world.path("copy.db")).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let copy = std::fs::read(world.path("copy.db")).unwrap();
    world.run("backup copy.db").refused(1, &["copy.db", "a backup never overwrites a file"]);
    world.write("other.db-webhook-key", "of another database");
    world.run("backup other.db").refused(1, &["other.db-webhook-key", "a backup never overwrites a file"]);
    assert_eq!(std::fs::read(world.path("copy.db")).unwrap(), copy);
    let unfinished = world.files().iter().any(|name| name.contains("handover-backup"));
    assert!(!unfinished, "{:?}", world.files());
}

#[test]
fn restored_backup_accepts_the_tokens_and_has_the_secrets_of_the_original() {
    const SECRETS: [&str; 3] = ["jwt-secret", "gateway-secret", "webhook-key"];
    let world = World::new();
    let server = world.serve("");
    let seller = world.token("--user 20");
    server.ask(&seller, "POST /api/v1/products", r#"{"title":"a lamp","price":42}"#);
    let ran = world.run("backup copy.db");
    let text = ran.done();
    assert!(SECRETS.iter().all(|secret| text.contains(&format!("copy.db-{secret}"))), "{text}");
    drop(server);
    // On another machine.
    let restored = World::new();
    for file in std::iter::once(String::new()).chain(SECRETS.map(|secret| format!("-{secret}"))) {
        let copied = std::fs::copy(
            world.path(&format!("copy.db{file}")),
            restored.path(&format!("handover.db{file}")),
        );
        copied.unwrap();
    }
    let server = restored.serve("");
    let page = server.ask(&seller, "GET /api/v1/products", "").to_string();
    assert!(page.contains("a lamp"), "{page}");
    restored.run("reconcile").done();
    for secret in SECRETS {
        let read = |world: &World| std::fs::read(world.path(&format!("handover.db-{secret}"))).unwrap();
        assert_eq!(read(&restored), read(&world), "{secret}");
    }
}

#[test]
fn backup_without_database_file_is_refused() {
    let world = World::new();
    world.run("backup copy.db").refused(1, &["database not found"]);
    std::fs::write(world.path("empty.db"), "").unwrap();
    world.run("backup copy.db --database sqlite://empty.db").refused(1, &["database not found"]);
    world.run("backup nowhere/copy.db").refused(1, &["nowhere/copy.db", "create the folder"]);
    let world = world.set("HANDOVER_DATABASE__URL", "postgres://shop:secret@db/shop");
    world.run("backup copy.db").refused(2, &["pg_dump", "mysqldump"]);
    assert!(!world.files().iter().any(|name| name.contains("copy")), "{:?}", world.files());
}

#[test]
fn restored_backup_beside_an_old_log_is_refused_until_the_log_is_moved() {
    let world = World::new();
    let server = world.serve("");
    let seller = world.token("--user 20");
    server.ask(&seller, "POST /api/v1/products", r#"{"title":"a lamp","price":42}"#);
    world.run("backup copy.db").done();
    server.ask(&seller, "POST /api/v1/products", r#"{"title":"a chair","price":42}"#);
    // Killed, so that the log remains.
    drop(server);
    let log = std::fs::read(world.path("handover.db-wal")).unwrap();
    std::fs::copy(world.path("copy.db"), world.path("handover.db")).unwrap();
    for command in ["serve --listen 127.0.0.1:0", "outbox list", "migrate", "backup other.db"] {
        world.run(command).refused(1, &["handover.db-wal does not belong to", "another folder"]);
    }
    assert_eq!(std::fs::read(world.path("handover.db-wal")).unwrap(), log);
    assert_eq!(
        std::fs::read(world.path("handover.db")).unwrap(),
        std::fs::read(world.path("copy.db")).unwrap()
    );
    std::fs::remove_file(world.path("handover.db-wal")).unwrap();
    std::fs::remove_file(world.path("handover.db-shm")).unwrap();
    let server = world.serve("");
    let page = server.ask(&seller, "GET /api/v1/products", "").to_string();
    assert!(page.contains("a lamp") && !page.contains("a chair"), "{page}");
}
