//! Explains why the server rejected a declaration: the queue or exchange exists with other arguments.

/// An argument that differs from the existing one, as reported by RabbitMQ.
#[derive(Debug, PartialEq, Eq)]
struct Difference<'a> {
    argument: &'a str,
    /// `queue` or `exchange`.
    kind: &'a str,
    name: &'a str,
    vhost: &'a str,
    requested: &'a str,
    current: &'a str,
}

/// Names the queue or exchange, the argument, both values and a solution. Returns the server's text if it cannot be
/// parsed.
pub(crate) fn explain(text: &str) -> String {
    let Some(Difference { argument, kind, name, vhost, requested, current }) = parse(text) else {
        return text.to_owned();
    };
    let solution = match argument {
        // This crate sets these two arguments only on quorum queues, so the queue types differ.
        "x-dead-letter-strategy" | "x-overflow" if kind == "queue" => format!(
            "set rabbitmq.queue-type to {}, or let consumers drain the queue, delete it (rabbitmqctl -p '{vhost}' \
             delete_queue '{name}') and restart",
            if current == "none" { "classic" } else { "quorum" }
        ),
        "x-queue-type" => format!(
            "set rabbitmq.queue-type to {current}, or let consumers drain the queue, delete it (rabbitmqctl -p '{vhost}' \
             delete_queue '{name}') and restart"
        ),
        _ if kind == "queue" => format!(
            "restore the setting with which the queue was declared, or let consumers drain the queue, delete it (rabbitmqctl \
             -p '{vhost}' delete_queue '{name}') and restart"
        ),
        _ => format!("delete the {kind} when it is no longer used, or use another vhost"),
    };
    format!(
        "the {kind} {name} exists with a different {argument}: {current} instead of the requested {requested}; nothing was \
         changed. Solution: {solution}"
    )
}

/// The argument `x-delivery-limit` of the existing queue, if the server rejected the declaration because of it: `None` within if
/// the queue has no such argument.
pub(crate) fn existing_delivery_limit(text: &str) -> Option<Option<i64>> {
    let difference = parse(text).filter(|difference| difference.argument == "x-delivery-limit")?;
    if difference.current == "none" { Some(None) } else { difference.current.parse().ok().map(Some) }
}

/// Parses `.. inequivalent arg 'A' for queue 'Q' in vhost 'V': received X but current is Y`.
fn parse(text: &str) -> Option<Difference<'_>> {
    let (_, rest) = text.split_once("inequivalent arg '")?;
    let (argument, rest) = rest.split_once("' for ")?;
    let (kind, rest) = rest.split_once(" '")?;
    let (name, rest) = rest.split_once("' in vhost '")?;
    let (vhost, rest) = rest.split_once("': received ")?;
    let (requested, current) = rest.split_once(" but current is ")?;
    Some(Difference { argument, kind, name, vhost, requested: value(requested), current: value(current) })
}

/// Extracts `V` from `the value 'V' of type 'T'` or `'V'`; returns `none` unchanged.
fn value(text: &str) -> &str {
    match text.split_once('\'') {
        Some((_, rest)) => rest.split_once('\'').map_or(rest, |(value, _)| value),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanation_names_queue_argument_both_values_and_solution() {
        let refusal = "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'order.timeout.delay.queue' in \
                    vhost 'shop': received the value '37000' of type 'long' but current is the value '61000' of type \
                    'long'";
        let explanation = explain(refusal);
        for part in [
            "order.timeout.delay.queue",
            "x-message-ttl",
            ": 61000 instead",
            "requested 37000",
            "delete_queue",
        ] {
            assert!(explanation.contains(part), "{part} is not in: {explanation}");
        }
    }

    #[test]
    fn missing_argument_is_parsed_as_none() {
        let refusal = "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue 'q' in vhost '/': \
                    received none but current is the value 'e' of type 'longstr'";
        let difference = parse(refusal).unwrap();
        assert_eq!((difference.requested, difference.current), ("none", "e"));
    }

    #[test]
    fn different_queue_type_refers_to_the_setting() {
        let refusal = "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received \
                    'quorum' but current is 'classic'";
        assert!(explain(refusal).contains("set rabbitmq.queue-type to classic"));
    }

    #[test]
    fn argument_of_quorum_queues_refers_to_the_queue_type_setting() {
        let explain_strategy = |received: &str, current: &str| {
            explain(&format!(
                "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-strategy' for queue 'q' in vhost '/': received \
                 {received} but current is {current}"
            ))
        };
        let strategy = "the value 'at-least-once' of type 'longstr'";
        assert!(explain_strategy("none", strategy).contains("set rabbitmq.queue-type to quorum"));
        assert!(explain_strategy(strategy, "none").contains("set rabbitmq.queue-type to classic"));
    }

    #[test]
    fn unparsable_refusal_is_returned_unchanged() {
        assert_eq!(explain("PRECONDITION_FAILED - something else"), "PRECONDITION_FAILED - something else");
    }
}
