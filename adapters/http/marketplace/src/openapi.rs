//! OpenAPI document: the routes describe themselves (`#[utoipa::path]`); the parameters and responses of the layers are
//! added to every operation in one place.
//!
//! **Invariant:** a route describes only its own parameters and responses.

pub(crate) mod kinds;
mod parameters;

pub(crate) use parameters::{RequiredKey, Signed};

use axum::http::{Method, StatusCode};
use handover_http::header_names::X_IDEMPOTENCY_KEY;
use handover_http::openapi::{Additions, Api, ErrorCase, add_layers, add_webhooks, kind};
use marketplace::consumers::webhook_offer;
use serde_json::json;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::schema::{Object, Type};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, ComponentsBuilder, InfoBuilder, LicenseBuilder, ObjectBuilder, OpenApi, OpenApiBuilder,
    RefOr, Required, Schema, Server,
};

use crate::refusal::{IN_PROGRESS, KEY_REUSED};

const ABOUT: &str = include_str!("openapi/about.md");

/// Tags in display order.
const TAGS: [(&str, &str); 10] = [
    ("products", "Products for sale."),
    ("orders", "Orders, from purchase to completion."),
    ("payments", "Payments for orders."),
    ("refunds", "Refunds of paid orders."),
    ("assets", "Assets of the caller that can pay for orders: wallet, points, coupons."),
    ("account", "The caller's credit score, notifications, shipments and listings."),
    ("gateway", "Signed callbacks of the payment gateway."),
    ("invoices", "Monthly invoices of the tenant; they require the role `operator` or `platform`."),
    (
        "webhooks",
        "Endpoints of other systems that get events of the tenant; they require the role `operator` or `platform`.",
    ),
    ("operators", "Operations; they require the role `operator` or `platform`."),
];
const SERVICE: (&str, &str) = ("service", "Health, metrics and this document.");

/// Bearer token: the default security scheme.
const BEARER: &str = "bearer";
/// Signature of the payment gateway.
const SIGNATURE: &str = "gatewaySignature";

/// The layers of the API.
const API: Api = Api {
    prefix: "/api/",
    operators: &["/api/v1/ops/", "/api/v1/webhooks", "/api/v1/invoices"],
    extend: idempotency_layer,
};

/// Builds the whole document from the routes' own descriptions.
pub(crate) fn document(described: OpenApi) -> OpenApi {
    let mut document = frame();
    document.merge(described);
    add_layers(&mut document, &API);
    add_webhooks(&mut document, &webhook_offer());
    name_examples(&mut document);
    document
}

/// What the idempotency layer adds to a POST of a user. Users do not call an operation that has its own security scheme,
/// such as a callback of the gateway.
fn idempotency_layer(method: &Method, operation: &Operation) -> Additions {
    if method != Method::POST || operation.security.is_some() {
        return Additions::default();
    }
    let has_key = operation.parameters.iter().flatten().any(is_key);
    let key = (!has_key).then(|| parameters::idempotency_key(Required::False));
    let in_progress = "the same request is being processed";
    let reused = "the key was used for another request";
    Additions {
        parameters: key.into_iter().collect(),
        errors: vec![
            ErrorCase::of_layer(StatusCode::CONFLICT, IN_PROGRESS, in_progress),
            ErrorCase::of_layer(StatusCode::UNPROCESSABLE_ENTITY, KEY_REUSED, reused),
        ],
        headers: vec![("Idempotent-Replayed", "Replayed")],
    }
}

fn is_key(parameter: &RefOr<Parameter>) -> bool {
    matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Header && parameter.name == X_IDEMPOTENCY_KEY)
}

/// Replaces examples and descriptions of the toolkit by those of the marketplace.
fn name_examples(document: &mut OpenApi) {
    const AGGREGATE: &str = ", such as the id of an order or a payment";
    let list = document.paths.paths.get_mut("/api/v1/ops/outbox").and_then(|path| path.get.as_mut());
    for parameter in list.and_then(|list| list.parameters.as_mut()).into_iter().flatten() {
        if let RefOr::T(parameter) = parameter
            && parameter.name == "aggregateId"
        {
            parameter.description.iter_mut().for_each(|text| text.push_str(AGGREGATE));
        }
    }
    let Some(components) = &mut document.components else { return };
    if let Some(event_type) = object(components, "EventType") {
        event_type.examples = vec![json!("ORDER_CREATED")];
    }
    let filter = object(components, "RedriveEventFilter");
    if let Some(RefOr::T(Schema::OneOf(optional))) =
        filter.and_then(|filter| filter.properties.get_mut("aggregateId"))
        && let Some(RefOr::Ref(aggregate_id)) = optional.items.first_mut()
    {
        aggregate_id.description = format!("Aggregate id{AGGREGATE}.");
    }
    if let Some(redrive) = object(components, "RedriveRequest") {
        redrive.example =
            Some(json!({ "filter": { "status": "FAILED", "eventType": "ORDER_PAID" }, "dryRun": true }));
    }
}

fn object<'a>(components: &'a mut Components, name: &str) -> Option<&'a mut Object> {
    match components.schemas.get_mut(name)? {
        RefOr::T(Schema::Object(object)) => Some(object),
        RefOr::T(_) | RefOr::Ref(_) => None,
    }
}

fn frame() -> OpenApi {
    let tags = TAGS.into_iter().chain([SERVICE]);
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("handover")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(ABOUT.trim_end()))
                .license(Some(
                    LicenseBuilder::new()
                        .name("MIT or Apache-2.0")
                        .identifier(Some("MIT OR Apache-2.0"))
                        .build(),
                ))
                .build(),
        )
        .servers(Some([Server::new("/")]))
        .security(Some([SecurityRequirement::new(BEARER, [] as [&str; 0])]))
        .tags(Some(tags.map(|(name, what)| TagBuilder::new().name(name).description(Some(what)).build())))
        .components(Some(components()))
        .build()
}

fn components() -> Components {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .description(Some("`sub` is the user id, `tenant` the tenant id, `roles` a list of `user`, `operator`, `platform`, `pii`."))
        .build();
    let signature = ApiKeyValue::with_description(
        "webhook-signature",
        "Standard Webhooks: `v1,` followed by the base64-encoded HMAC-SHA256 of `webhook-id`, `webhook-timestamp` and the \
         body, joined by dots. A signature is valid for five minutes.",
    );
    let replayed = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["true"]));
    let replayed = HeaderBuilder::new()
        .schema(Some(replayed))
        .description(Some("The response was stored for an earlier request with the same key"))
        .build();
    ComponentsBuilder::new()
        .schemas_from_iter([kind::<kinds::NoRepair>(), kind::<kinds::Side>()])
        .header("Replayed", replayed)
        .security_scheme(BEARER, SecurityScheme::Http(bearer))
        .security_scheme(SIGNATURE, SecurityScheme::ApiKey(ApiKey::Header(signature)))
        .build()
}
