//! Ports, use cases, the outbox relay and the exactly-once consumers; knows the domain only.
