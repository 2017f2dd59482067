//! `handover invoice`.

use crate::program::World;

#[test]
fn invoice_commands_name_what_is_missing_or_not_allowed() {
    let world = World::new();
    drop(world.serve(""));
    assert!(world.run("invoice list").done().starts_with("invoiceId"));
    let empty = world.run("invoice list --status paid --output json").json();
    assert_eq!(empty, serde_json::json!({ "items": [], "nextCursor": null }));
    world
        .run("invoice show 4711")
        .refused(1, &["not found in handover.db: invoice 4711", "see `handover invoice list`"]);
    let not_found = ["not found in handover.db: invoice 4711", "see `handover invoice list`"];
    world.run("invoice pay 4711").refused(1, &not_found);
    world.run("invoice refund 4711 --reason unknown").refused(1, &not_found);
    world.run("invoice generate --period 2026-01 --tenant 7").refused(1, &["tenant 7 with orders"]);
    world
        .run("invoice generate --period 2999-12")
        .refused(1, &["the period 2999-12 is not closed; it can be invoiced from 3000-01-01T00:15:00Z"]);
    for (arguments, expected) in [
        ("generate --period 2026-13", "must be a month such as 2026-02"),
        ("list --status open", "allowed values: pending, paid, refunded"),
        ("pay 4711 --method cash", "allowed values: online, card, wallet, alipay, wechat, bank-transfer"),
        ("refund 4711", "--reason <TEXT>"),
    ] {
        let refused = world.run(&format!("invoice {arguments}"));
        assert!(refused.code == Some(2) && refused.stderr.contains(expected), "{refused:?}");
    }
}
