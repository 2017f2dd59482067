//! What a queue that exists with other arguments is refused with, in words that help.

/// What RabbitMQ says of an argument that is not what it was.
#[derive(Debug, PartialEq, Eq)]
struct Difference<'a> {
    argument: &'a str,
    /// `queue` or `exchange`.
    kind: &'a str,
    name: &'a str,
    vhost: &'a str,
    asked: &'a str,
    current: &'a str,
}

/// Queue, argument, both values and the way out; what the server said where that cannot be read.
pub(crate) fn explain(said: &str) -> String {
    let Some(Difference { argument, kind, name, vhost, asked, current }) = parse(said) else {
        return said.to_owned();
    };
    let way_out = match argument {
        // What quorum queues alone have.
        "x-dead-letter-strategy" | "x-overflow" if kind == "queue" => format!(
            "set rabbitmq.queue-type to {}, or let its consumers drain it, delete it (rabbitmqctl -p '{vhost}' \
             delete_queue '{name}') and start again",
            if current == "none" { "classic" } else { "quorum" }
        ),
        "x-queue-type" => format!(
            "set rabbitmq.queue-type to {current}, or let its consumers drain it, delete it (rabbitmqctl -p '{vhost}' \
             delete_queue '{name}') and start again"
        ),
        _ if kind == "queue" => format!(
            "go back to the setting that it was declared with, or let its consumers drain it, delete it (rabbitmqctl \
             -p '{vhost}' delete_queue '{name}') and start again"
        ),
        _ => format!("delete the {kind} when nothing needs it any more, or use another vhost"),
    };
    format!(
        "the {kind} {name} exists with another {argument}: it has {current}, and {asked} is asked for; nothing was \
         changed. The way out: {way_out}"
    )
}

/// `.. inequivalent arg 'A' for queue 'Q' in vhost 'V': received X but current is Y`.
fn parse(said: &str) -> Option<Difference<'_>> {
    let (_, rest) = said.split_once("inequivalent arg '")?;
    let (argument, rest) = rest.split_once("' for ")?;
    let (kind, rest) = rest.split_once(" '")?;
    let (name, rest) = rest.split_once("' in vhost '")?;
    let (vhost, rest) = rest.split_once("': received ")?;
    let (asked, current) = rest.split_once(" but current is ")?;
    Some(Difference { argument, kind, name, vhost, asked: value(asked), current: value(current) })
}

/// `the value 'V' of type 'T'`, `'V'` or `none`.
fn value(said: &str) -> &str {
    match said.split_once('\'') {
        Some((_, rest)) => rest.split_once('\'').map_or(rest, |(value, _)| value),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_queue_argument_both_values_and_the_way_out() {
        let said = "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'order.timeout.delay.queue' in \
                    vhost 'shop': received the value '37000' of type 'long' but current is the value '61000' of type \
                    'long'";
        let told = explain(said);
        for part in
            ["order.timeout.delay.queue", "x-message-ttl", "has 61000", "37000 is asked", "delete_queue"]
        {
            assert!(told.contains(part), "{part} is not in: {told}");
        }
    }

    #[test]
    fn an_argument_that_is_not_there_is_none() {
        let said = "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue 'q' in vhost '/': \
                    received none but current is the value 'e' of type 'longstr'";
        let difference = parse(said).unwrap();
        assert_eq!((difference.asked, difference.current), ("none", "e"));
    }

    #[test]
    fn another_queue_type_is_the_setting_s_fault() {
        let said = "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received \
                    'quorum' but current is 'classic'";
        assert!(explain(said).contains("set rabbitmq.queue-type to classic"));
    }

    #[test]
    fn what_only_quorum_queues_have_tells_of_the_queue_type_too() {
        let said = |received: &str, current: &str| {
            explain(&format!(
                "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-strategy' for queue 'q' in vhost '/': received \
                 {received} but current is {current}"
            ))
        };
        let strategy = "the value 'at-least-once' of type 'longstr'";
        assert!(said("none", strategy).contains("set rabbitmq.queue-type to quorum"));
        assert!(said(strategy, "none").contains("set rabbitmq.queue-type to classic"));
    }

    #[test]
    fn what_cannot_be_read_is_told_as_it_was_said() {
        assert_eq!(explain("PRECONDITION_FAILED - something else"), "PRECONDITION_FAILED - something else");
    }
}
