//! Tables show fields of the views.

use handover_http::views::Listed;
use marketplace_http::views::{GatewayReportView, InvoiceView, RecordedFindingView, RefundDetailsView};

/// The columns that are not a field of the view.
fn unknown<V: Listed>() -> Vec<&'static str> {
    let schema = serde_json::to_value(V::schema()).unwrap();
    let fields = schema["properties"].as_object().unwrap();
    assert!(!V::COLUMNS.is_empty());
    V::COLUMNS.iter().copied().filter(|column| !fields.contains_key(*column)).collect()
}

#[test]
fn every_column_of_a_table_is_a_field_of_its_view() {
    let unknown = [
        unknown::<GatewayReportView>(),
        unknown::<InvoiceView>(),
        unknown::<RecordedFindingView>(),
        unknown::<RefundDetailsView>(),
    ];
    for unknown in unknown {
        assert_eq!(unknown, [""; 0]);
    }
}
