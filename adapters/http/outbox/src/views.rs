//! JSON representations of rows and results, used by the API and the command line.
//!
//! A view lists exactly the fields that a client sees. Its fields are private, because it is only serialized.

use serde::Serialize;
use utoipa::ToSchema;

mod actions;
mod alerts;
mod consumers;
mod counts;
mod outbox;
mod time;
mod topology;
mod webhooks;

pub use actions::{
    ArchiveView, DiscardView, RedriveView, ReleaseView, ReplayResultView, ReplayView, RestoreView,
};
pub use alerts::{AlertView, StatSeriesView, StatSummaryView};
pub use consumers::{AuditView, ConsumptionView, DeadLetterView};
pub use counts::{QueueView, StatsView};
pub use outbox::{ArchivedEventView, BlockedView, EventView};
pub use time::Time;
pub use topology::EventFlowView;
pub use webhooks::{OfferedTypeView, RecoveredView, WebhookDeliveryView, WebhookView, WebhookWithSecretView};

/// A view of the rows of a list.
pub trait Listed: Serialize + ToSchema {
    /// JSON names of the fields that a table of these rows shows, in this order.
    const COLUMNS: &'static [&'static str];
}

/// Declares views. A view is `Name as SchemaName { field: Type, .. }`: the JSON names are the names in camelCase, and every
/// field is present, `null` if it has no value. The type of a field defines its schema: `kinds::of_types` names the kind of
/// value of each type of the domain. `field: Type = kind` names the kind of a field whose type does not define it.
#[macro_export]
macro_rules! views {
    ($(
        $(#[doc = $doc:literal])*
        $visibility:vis $view:ident as $name:ident {$(
            $(#[doc = $field_doc:literal])*
            $(#[serde $serde:tt])?
            $field:ident: $type:ty $(= $kind:ty)?,
        )*}
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Debug, ::serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        $visibility struct $view {$(
            $(#[doc = $field_doc])*
            $(#[serde $serde])?
            $field: $type,
        )*}

        const _: () = {
            // In this block, the name of a type of the domain means its kind.
            #[allow(unused_imports, reason = "a view may have no field with a type of the domain")]
            use kinds::of_types::*;

            $(#[doc = $doc])*
            #[allow(dead_code, reason = "only describes the view")]
            #[derive(::utoipa::ToSchema)]
            #[serde(rename_all = "camelCase")]
            #[schema(as = $name)]
            struct Described {$(
                $(#[doc = $field_doc])*
                $(#[serde $serde])?
                #[schema(required $(, value_type = $kind)?)]
                $field: $type,
            )*}

            impl ::utoipa::PartialSchema for $view {
                fn schema() -> ::utoipa::openapi::RefOr<::utoipa::openapi::Schema> {
                    <Described as ::utoipa::PartialSchema>::schema()
                }
            }

            impl ::utoipa::ToSchema for $view {
                fn name() -> ::std::borrow::Cow<'static, str> {
                    <Described as ::utoipa::ToSchema>::name()
                }

                fn schemas(
                    schemas: &mut Vec<(String, ::utoipa::openapi::RefOr<::utoipa::openapi::Schema>)>,
                ) {
                    <Described as ::utoipa::ToSchema>::schemas(schemas);
                }
            }
        };
    )*};
}
