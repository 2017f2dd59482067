//! The OpenAPI document: what the routes say of themselves (`#[utoipa::path]`), and what every request meets on its way to
//! them, added in one place.
//!
//! **Invariant:** a route says what is its own; what a layer in front of it asks for or answers is in `layers.rs` alone.

pub(crate) mod kinds;
mod layers;
mod parameters;
mod refused;

pub(crate) use parameters::{Paging, RequiredKey, Signed};

use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Server};

const ABOUT: &str = include_str!("about.md");

/// The tags, in the order in which they are shown.
const TAGS: [(&str, &str); 8] = [
    ("products", "What is for sale."),
    ("orders", "From buying to receiving."),
    ("payments", "Orders that are paid."),
    ("refunds", "Money that goes back."),
    ("assets", "What one can pay with beside money: wallet, points, coupons."),
    ("mine", "What the events left for the caller."),
    ("gateway", "What the payment gateway reports, signed."),
    ("operators", "What operators see and do. They have the role `operator` or `platform`."),
];
const SERVICE: (&str, &str) = ("service", "How this process is, and this document.");

/// The bearer token, the scheme of every operation that names no other.
const BEARER: &str = "bearer";
/// The gateway's signature.
const SIGNATURE: &str = "gatewaySignature";

/// The document of routes that say of themselves what is in `described`.
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
        .description(Some("`sub` is the user, `tenant` the marketplace, `roles` a list of `user`, `operator`, `platform`, `pii`."))
        .build();
    let signature = ApiKeyValue::with_description(
        "webhook-signature",
        "Standard Webhooks: `v1,` and the HMAC-SHA256, in base64, of `webhook-id`, `webhook-timestamp` and the body, \
         joined by dots. A signature is good for five minutes.",
    );
    ComponentsBuilder::new()
        .security_scheme(BEARER, SecurityScheme::Http(bearer))
        .security_scheme(SIGNATURE, SecurityScheme::ApiKey(ApiKey::Header(signature)))
        .build()
}
