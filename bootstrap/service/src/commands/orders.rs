//! `order timeline|show|find`: reads directly from the database, also while a process serves it.

use handover_cli::Access;
use handover_cli::print::{list, table};
use handover_events::TenantId;
use handover_runtime::Failure;
use handover_runtime::terminal::{Output, output, say};
use marketplace::use_cases::operations::{FindOrders, OrderSearch};
use marketplace_domain::OrderId;
use marketplace_http::views::{
    FoundOrderView, OrderDetailsView, PaymentDetailsView, RefundDetailsView, TimelineView,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::money::{failed, failed_to_find};
use super::operator::Operator;
use crate::cli::{OrderCommand, OrderFindArgs, OrderName, OrderSearchArgs, OrderShowArgs, TimelineArgs};

/// Where to look for the id of an order.
const SEE: &str = "handover order find --buyer USER";

/// `order`.
pub(super) async fn order(command: &OrderCommand) -> Result<(), Failure> {
    match command {
        OrderCommand::Timeline(arguments) => timeline(arguments).await,
        OrderCommand::Show(arguments) => show(arguments).await,
        OrderCommand::Find(arguments) => find(arguments).await,
    }
}

/// `order timeline`.
async fn timeline(arguments: &TimelineArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let tenant = arguments.tenant;
    let order = id_of(&operator, tenant, &arguments.order).await?;
    let timeline = operator.app.operations.timeline(&operator.context, tenant, order).await;
    let timeline =
        timeline.map_err(|error| operator.session.failed_to_find(error, format!("order {order}"), SEE))?;
    print_timeline(arguments.output.output, arguments.wide, &TimelineView::from(timeline))
}

/// Prints the timeline of an order or invoice.
pub(super) fn print_timeline(format: Output, wide: bool, timeline: &impl Serialize) -> Result<(), Failure> {
    const COLUMNS: [&str; 13] = [
        "at",
        "kind",
        "what",
        "status",
        "attempts",
        "eventType",
        "consumer",
        "actor",
        "amount",
        "balanceAfter",
        "idempotencyKey",
        "archived",
        "detail",
    ];
    const MAX_CHARS: usize = 120;
    let view = output::value(timeline);
    let items = view["items"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(say(&match format {
        Output::Table if wide => output::columns(&COLUMNS, items),
        Output::Table => {
            let rows: Vec<Value> = items.iter().map(short_row).collect();
            output::columns_within(&["time", "what", "who", "result"], &rows, Some(MAX_CHARS))
        }
        Output::Json => output::json(&view),
    })?)
}

/// An item of a timeline in four columns: time, what happened, who did it, and the result with its reason.
fn short_row(item: &Value) -> Value {
    let text = |name: &str| item[name].as_str();
    // Without the digits after milliseconds.
    let time = text("at").map(|at| format!("{}Z", at.get(..23).unwrap_or(at).replace('T', " ")));
    // The other kinds name the event or the change.
    let what = match (text("kind"), text("eventType"), text("what")) {
        (Some("published" | "deadLetter" | "webhook"), Some(event), Some(what)) => {
            Some(format!("{event} {what}"))
        }
        (_, _, what) => what.map(str::to_owned),
    };
    let archived = if item["archived"] == true { " (archived)" } else { "" };
    let what = what.map(|what| what + archived);
    let result: Vec<&str> = [text("status"), text("detail")].into_iter().flatten().collect();
    json!({
        "time": time,
        "what": what,
        "who": text("actor").or(text("consumer")),
        "result": result.join(": "),
    })
}

/// `order show`.
async fn show(arguments: &OrderShowArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let id = id_of(&operator, None, &arguments.order).await?;
    let details = operator.app.operations.show_order(&operator.context, id).await;
    let details = details.map_err(|error| failed_to_find(&operator, error, format!("order {id}"), SEE))?;
    let view = output::value(&OrderDetailsView::from(details));
    Ok(say(&match arguments.output.output {
        Output::Table => details_as_text(view),
        Output::Json => output::json(&view),
    })?)
}

/// The fields of the order, then its payments and refunds as tables.
fn details_as_text(mut view: Value) -> String {
    let (payments, refunds) = (take_items(&mut view, "payments"), take_items(&mut view, "refunds"));
    let mut text = output::object(&view);
    if !payments.is_empty() {
        text += &format!("\npayments\n{}", table::<PaymentDetailsView>(&payments));
    }
    if !refunds.is_empty() {
        text += &format!("\nrefunds\n{}", table::<RefundDetailsView>(&refunds));
    }
    text
}

/// Removes a list from a view.
fn take_items(view: &mut Value, name: &str) -> Vec<Value> {
    let removed = view.as_object_mut().and_then(|fields| fields.shift_remove(name));
    removed.as_ref().and_then(Value::as_array).cloned().unwrap_or_default()
}

/// `order find`.
async fn find(arguments: &OrderFindArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let OrderSearchArgs { number, buyer, payment, reference, transaction } = arguments.search.clone();
    let searches = [
        number.map(OrderSearch::Number),
        buyer.map(OrderSearch::Buyer),
        payment.map(OrderSearch::Payment),
        reference.map(OrderSearch::Reference),
        transaction.map(OrderSearch::Transaction),
    ];
    // The parser accepts exactly one of them.
    for search in searches.into_iter().flatten() {
        let query = FindOrders {
            search,
            tenant: arguments.tenant,
            before: arguments.page.cursor.and_then(|cursor| OrderId::try_from(cursor).ok()),
            limit: arguments.page.limit,
        };
        let page = operator.app.operations.find_orders(&operator.context, query).await;
        let page = page.map_err(|error| failed(&operator, error))?;
        list(arguments.output.output, page, FoundOrderView::from)?;
    }
    Ok(())
}

/// The id of an order.
async fn id_of(operator: &Operator, tenant: Option<TenantId>, name: &OrderName) -> Result<OrderId, Failure> {
    let number = match name {
        OrderName::Id(id) => return Ok(*id),
        OrderName::Number(number) => number,
    };
    let query = FindOrders { search: OrderSearch::Number(number.clone()), tenant, before: None, limit: 1 };
    let found = operator.app.operations.find_orders(&operator.context, query).await;
    let found = found.map_err(|error| failed(operator, error))?;
    let order = found.items.first().map(|order| order.id);
    order.ok_or_else(|| operator.session.missing(format!("order number {number}"), SEE))
}
