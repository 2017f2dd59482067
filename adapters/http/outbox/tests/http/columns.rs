//! Tables show fields of the views.

use handover_http::views::{
    AuditView, BlockedView, DeadLetterView, EventView, Listed, QueueView, WebhookDeliveryView, WebhookView,
};

/// The columns that are not a field of the view.
fn unknown<V: Listed>() -> Vec<&'static str> {
    let schema = serde_json::to_value(V::schema()).unwrap();
    let fields = schema["properties"].as_object().unwrap();
    assert!(!V::COLUMNS.is_empty());
    V::COLUMNS.iter().copied().filter(|column| !fields.contains_key(*column)).collect()
}

#[test]
fn every_column_of_a_table_is_a_field_of_its_view() {
    for unknown in [
        unknown::<AuditView>(),
        unknown::<BlockedView>(),
        unknown::<DeadLetterView>(),
        unknown::<EventView>(),
        unknown::<QueueView>(),
        unknown::<WebhookDeliveryView>(),
        unknown::<WebhookView>(),
    ] {
        assert_eq!(unknown, [""; 0]);
    }
}
