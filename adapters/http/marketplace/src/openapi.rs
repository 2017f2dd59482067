//! OpenAPI document: the routes describe themselves (`#[utoipa::path]`); the parameters and responses of the layers are
//! added to every operation in one place.
//!
//! **Invariant:** a route describes only its own parameters and responses; those of the layers are in `layers.rs`.

mod error_responses;
pub(crate) mod kinds;
mod layers;
mod parameters;

pub(crate) use layers::operations;
pub(crate) use parameters::{Paging, RequiredKey, Signed, TENANT, TENANT_NOT_FOUND};

use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Server};

const ABOUT: &str = include_str!("openapi/about.md");

/// Tags in display order.
const TAGS: [(&str, &str); 8] = [
    ("products", "Products for sale."),
    ("orders", "Orders, from purchase to completion."),
    ("payments", "Payments for orders."),
    ("refunds", "Refunds of paid orders."),
    ("assets", "Assets of the caller that can pay for orders: wallet, points, coupons."),
    ("account", "The caller's credit score, notifications, shipments and listings."),
    ("gateway", "Signed callbacks of the payment gateway."),
    ("operators", "Operations; they require the role `operator` or `platform`."),
];
const SERVICE: (&str, &str) = ("service", "Health, metrics and this document.");

/// Bearer token: the default security scheme.
const BEARER: &str = "bearer";
/// Signature of the payment gateway.
const SIGNATURE: &str = "gatewaySignature";

/// Builds the whole document from the routes' own descriptions.
pub(crate) fn document(described: OpenApi) -> OpenApi {
    let mut document = frame();
    document.merge(described);
    layers::add(&mut document);
    document
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

fn components() -> utoipa::openapi::Components {
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
    ComponentsBuilder::new()
        .security_scheme(BEARER, SecurityScheme::Http(bearer))
        .security_scheme(SIGNATURE, SecurityScheme::ApiKey(ApiKey::Header(signature)))
        .build()
}
