use clap::CommandFactory;
use handover_events::OutboxStatus;
use marketplace::Role;
use marketplace_domain::ReportState;

use handover_cli::args::{DlqCommand, OutboxCommand};
use handover_cli::{Command as ToolkitCommand, OperatorCommand};

use super::*;
use handover_runtime::terminal::Output;

fn command(line: &str) -> Option<Command> {
    parse(line).unwrap().command.map(|command| command.0)
}

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split(' '))
}

#[test]
fn command_definition_is_valid() {
    Cli::command().debug_assert();
}

#[test]
fn without_command_serve_runs_all_roles_and_accepts_its_flags() {
    let cli = parse("handover --listen 127.0.0.1:0 --database sqlite://a.db").unwrap();
    assert!(cli.command.is_none());
    assert_eq!(cli.serve.address.listen.as_deref(), Some("127.0.0.1:0"));
    assert_eq!(cli.serve.roles().to_string(), "api,relay,consumers,jobs,webhooks");
}

#[test]
fn named_roles_are_selected() {
    let Some(Command::Serve(serve)) = command("handover serve --roles api,jobs") else { panic!("not serve") };
    assert_eq!(serve.roles().to_string(), "api,jobs");
    assert!(parse("handover serve --roles api,web").is_err());
}

#[test]
fn token_defaults_are_one_hour_tenant_1_and_role_user() {
    let Some(Command::Token(token)) = command("handover token --user 10001") else { panic!("not token") };
    assert_eq!((token.user, token.tenant, token.ttl.as_secs()), (10001, 1, 3600));
    assert_eq!(token.roles, [Role::User]);
    let line = "handover token --user 1 --role user --role operator --tenant 2 --ttl 15m";
    let Some(Command::Token(token)) = command(line) else { panic!("not token") };
    assert_eq!((token.tenant, token.ttl.as_secs()), (2, 900));
    assert_eq!(token.roles, [Role::User, Role::Operator]);
}

#[test]
fn invalid_arguments_are_usage_errors() {
    for line in [
        "handover token",
        "handover token --user 0",
        "handover token --user me",
        "handover token --user 1 --role admin",
        "handover token --user 1 --ttl 0s",
        "handover token --user 1 --ttl 400d",
        "handover --listen",
        "handover fly",
        "handover --database a serve",
        "handover outbox",
        "handover outbox show",
        "handover outbox list --status lost",
        "handover outbox list --tenant 0",
        "handover outbox list --limit 0",
        "handover outbox list --output xml",
        "handover outbox list --from 0000-12-31T23:59:59Z",
        "handover outbox list --to 9999-12-31T23:59:59-00:01",
        "handover alerts acknowledge queue-depth --for 300000y --reason r",
        "handover stats --since 300000y",
        "handover dlq list --limit 10001",
        "handover dlq list --status dead",
        "handover dlq replay",
        "handover dlq replay e-1 --all",
        "handover dlq replay e-1 --event-type ORDER_PAID",
        "handover dlq replay --all --queue inventory.update.queue",
        "handover dlq discard --all",
        "handover dlq discard --reason r",
        "handover dlq discard --all --reason ",
        "handover webhook create --url https://a.example",
        "handover webhook create --types *",
        "handover webhook create --url https://a.example --types * --max-in-flight 65",
        "handover webhook create --url https://a.example --types * --full --unmasked",
        "handover webhook create --url https://a.example --types * --header x",
        "handover webhook show 17",
        "handover webhook update 0192f0c1-0000-7000-8000-000000000001 --remove url",
        "handover webhook rotate-secret 0192f0c1-0000-7000-8000-000000000001 --overlap-hours 169",
        "handover webhook deliveries 0192f0c1-0000-7000-8000-000000000001 --state lost",
        "handover webhook redeliver 0192f0c1-0000-7000-8000-000000000001",
        "handover webhook recover 0192f0c1-0000-7000-8000-000000000001",
        "handover webhook listen",
        "handover webhook listen --secret x",
        "handover outbox redrive e-1 --status failed",
        "handover outbox redrive --per-second 0 e-1",
        "handover outbox redrive --per-second 10001 e-1",
        "handover outbox redrive --from today",
        "handover outbox release Order",
        "handover outbox release Order 007",
        "handover order timeline",
        "handover order timeline 0",
        "handover audit",
        "handover payment",
        "handover payment reports --state lost",
        "handover payment reports --from today",
        "handover payment reports close",
        "handover payment reports close 7",
        "handover payment reports close 0 --reason r",
        "handover payment reports close 7 --reason ",
        "handover payment reports --state open close 7 --reason r",
        "handover refund",
        "handover refund list --state lost",
        "handover refund show",
        "handover refund show 0",
        "handover refund retry 7",
        "handover refund settle 7 --reason ",
        "handover reconcile --since soon",
        "handover reconcile --since 300000y",
        "handover reconcile --since 2h --from 2026-01-31T08:00:00Z",
        "handover reconcile --to 2026-01-31T08:00:00Z",
        "handover reconcile --tenant 0",
        "handover completions ash",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn invalid_value_error_names_the_accepted_values() {
    let library =
        ["invalid digit", "number too large", "time unit", "in range", "premature end", "from empty"];
    for (line, expected) in [
        ("handover outbox list --limit many", "write a whole number from 1 to 1000"),
        ("handover outbox list --limit 1001", "write a whole number from 1 to 1000"),
        ("handover outbox list --aggregate-id x", "write a whole number from"),
        ("handover outbox list --cursor x", "write the `nextCursor` of an earlier page"),
        ("handover outbox list --tenant x", "integer from 1 to"),
        ("handover outbox redrive --from today", "write it as 2026-01-31T08:00:00Z"),
        ("handover outbox list --from 0000-12-31T23:59:59Z", "must be in the years 1 to 9999"),
        ("handover outbox release Order 007", "must be an integer, or a text of 1 to 255 bytes"),
        ("handover dlq list --limit 0", "write a whole number from 1 to 10000"),
        ("handover dlq list --cursor 0", "write the `nextCursor` of an earlier page"),
        ("handover token --user 99999999999999999999", "write a whole number from 1 to 9007199254740991"),
        ("handover token --user 1 --tenant me", "write a whole number from 1 to 9007199254740991"),
        ("handover token --user 1 --ttl 5", "write a number and its unit: 15m, 1h or 7d"),
        ("handover stats --since 1001y", "write at most 1000y"),
        ("handover reconcile --since soon", "write a number and its unit: 15m, 1h or 7d"),
        ("handover demo --orders few", "write a whole number from 10 to 20000"),
        ("handover demo --seed x", "write a whole number from 0 to"),
        ("handover order timeline x", "must be an order id, or an order number: 24 digits"),
        ("handover order find --buyer x", "integer from 1 to"),
        ("handover order find --number 17", "must be an order number: 24 digits"),
        ("handover order find --reference 17", "must be a UUID such as"),
        ("handover refund show x", "integer from 1 to"),
        ("handover refund list --state lost", "allowed values: processing, success, failed"),
        ("handover payment reports --state lost", "allowed values: open, done, closed"),
        ("handover payment reports close x --reason r", "write a whole number from 1 to"),
    ] {
        let text = parse(line).unwrap_err().to_string();
        assert!(text.contains(expected), "{line}: {text}");
        assert!(library.iter().all(|part| !text.contains(part)), "{line}: {text}");
    }
}

#[test]
fn list_defaults_are_twenty_rows_of_every_tenant_as_a_table() {
    let list = |line| match command(line) {
        Some(Command::Toolkit(ToolkitCommand::Operator(OperatorCommand::Outbox(OutboxCommand::List(
            list,
        ))))) => list,
        other => panic!("{other:?}"),
    };
    let plain = list("handover outbox list");
    assert_eq!((plain.page.limit, plain.filter.tenant, plain.output.output), (20, None, Output::Table));
    let narrow = list("handover outbox list --status retry --aggregate-id -3 --limit 1 --output json");
    assert_eq!((narrow.filter.status, narrow.filter.aggregate_id), (Some(OutboxStatus::Retry), Some(-3)));
    assert_eq!((narrow.page.limit, narrow.output.output), (1, Output::Json));
    let hour = list("handover outbox list --from 2026-01-31T08:00:00Z --to 2026-01-31T09:00:00Z").filter;
    assert_eq!(hour.to.zip(hour.from).map(|(to, from)| to - from), Some(chrono::TimeDelta::hours(1)));
}

#[test]
fn dead_letters_are_selected_by_key_by_filter_or_all() {
    let replay = |line| match command(line) {
        Some(Command::Toolkit(ToolkitCommand::Operator(OperatorCommand::Dlq(DlqCommand::Replay(
            replay,
        ))))) => replay,
        other => panic!("{other:?}"),
    };
    let named = replay("handover dlq replay e-1 e-2 --queue q --dry-run");
    assert_eq!((named.dead_letters.keys.len(), named.dead_letters.queue.as_deref()), (2, Some("q")));
    assert!(named.dead_letters.dry_run && !named.dead_letters.all && named.reason.is_none());
    let narrow = replay("handover dlq replay --queue q --event-type ORDER_PAID --tenant 2 --reason why");
    assert_eq!((narrow.dead_letters.keys.len(), narrow.dead_letters.tenant.map(|it| it.get())), (0, Some(2)));
    assert_eq!(narrow.reason.unwrap().as_str(), "why");
    assert!(replay("handover dlq replay --all").dead_letters.all);
}

#[test]
fn payment_reports_lists_without_subcommand_and_closes_with_reason() {
    let reports = |line| match command(line) {
        Some(Command::Payment(PaymentCommand::Reports(reports))) => reports,
        other => panic!("{other:?}"),
    };
    let plain = reports("handover payment reports");
    assert!(plain.command.is_none() && plain.list.state.is_none() && plain.list.page.limit == 20);
    let open =
        reports("handover payment reports --state OPEN --from 2026-01-31T08:00:00Z --limit 5 --cursor 9");
    assert_eq!(
        (open.list.state, open.list.page.limit, open.list.page.cursor),
        (Some(ReportState::Open), 5, Some(9))
    );
    let close = reports("handover payment reports close 7 --reason checked --output json").command;
    let Some(ReportsCommand::Close(close)) = close else { panic!("{close:?}") };
    assert_eq!((close.report, close.reason.as_str(), close.output.output), (7, "checked", Output::Json));
}

#[test]
fn every_command_and_flag_has_help_and_examples_fit_into_a_line() {
    fn check(command: &clap::Command) {
        let name = command.get_name();
        assert!(command.get_about().is_some(), "{name}");
        for flag in command.get_arguments() {
            assert!(flag.get_help().is_some(), "{name} {}", flag.get_id());
        }
        // clap would continue a longer example in the first column, where it reads as another command.
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for example in text.lines().filter(|line| line.starts_with("  ")) {
            assert!(example.len() <= 100, "{name}: {example}");
        }
        command.get_subcommands().for_each(check);
    }
    check(&Cli::command());
}
