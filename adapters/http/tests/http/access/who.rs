//! Who calls: the columns of the table.

use std::time::Duration;

use handover_events::TenantId;
use marketplace::Role;
use marketplace_domain::UserId;
use marketplace_http::Tokens;
use serde_json::json;

use crate::client::Request;
use crate::tokens::base64url;
use crate::world::{BUYER, GATEWAY_SECRET, HOUR, SECRET, SELLER, World};

pub(crate) const OTHER_BUYER: i64 = 10;
pub(crate) const OTHER_SELLER: i64 = 11;
const STAFF: i64 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Anonymous,
    /// What the buyer was given three hours ago, for an hour.
    Expired,
    WrongKey,
    Unsigned,
    /// Signs the body, and has no token.
    Gateway,
    Buyer,
    OtherBuyer,
    Seller,
    OtherSeller,
    /// The buyer's namesake in another tenant.
    Elsewhere,
    Operator,
    OtherOperator,
    /// In the tenant of the orders.
    Platform,
    /// Sees payloads, but has no other role.
    Pii,
}

impl Who {
    /// In the order of the table's columns.
    pub(crate) const ALL: [Who; 14] = [
        Who::Anonymous,
        Who::Expired,
        Who::WrongKey,
        Who::Unsigned,
        Who::Gateway,
        Who::Buyer,
        Who::OtherBuyer,
        Who::Seller,
        Who::OtherSeller,
        Who::Elsewhere,
        Who::Operator,
        Who::OtherOperator,
        Who::Platform,
        Who::Pii,
    ];

    /// Who is one to the audit log; refunds of an order are for the operators of its tenant alone.
    pub(crate) fn is_operator(self, route: &str) -> bool {
        match self {
            Who::Operator | Who::OtherOperator => true,
            Who::Platform => !route.ends_with("/refunds"),
            Who::Anonymous
            | Who::Expired
            | Who::WrongKey
            | Who::Unsigned
            | Who::Gateway
            | Who::Buyer
            | Who::OtherBuyer
            | Who::Seller
            | Who::OtherSeller
            | Who::Elsewhere
            | Who::Pii => false,
        }
    }

    pub(crate) const fn is_of_another_tenant(self) -> bool {
        matches!(self, Who::Elsewhere | Who::OtherOperator)
    }

    /// The request as this caller sends it.
    pub(crate) fn sends(self, world: &World, request: Request) -> Request {
        let token = |user, tenant, role| world.token(user, tenant, &[role]);
        let token = match self {
            Who::Anonymous => return request,
            Who::Gateway => return request.signed(GATEWAY_SECRET, 0),
            Who::Expired => issued(world, SECRET, HOUR * 3),
            Who::WrongKey => issued(world, b"another secret of at least thirty-two bytes", Duration::ZERO),
            Who::Unsigned => unsigned(world),
            Who::Buyer => token(BUYER, 1, Role::User),
            Who::OtherBuyer => token(OTHER_BUYER, 1, Role::User),
            Who::Seller => token(SELLER, 1, Role::User),
            Who::OtherSeller => token(OTHER_SELLER, 1, Role::User),
            Who::Elsewhere => token(BUYER, 2, Role::User),
            Who::Operator => token(STAFF, 1, Role::Operator),
            Who::OtherOperator => token(STAFF, 2, Role::Operator),
            Who::Platform => token(STAFF, 1, Role::Platform),
            Who::Pii => token(STAFF, 1, Role::Pii),
        };
        request.token(&token)
    }
}

/// A token of the buyer with every role, for an hour from so long ago.
fn issued(world: &World, secret: &[u8], ago: Duration) -> String {
    let buyer = UserId::try_from(BUYER).unwrap();
    let tokens = Tokens::new(secret).unwrap();
    tokens.issue(buyer, TenantId::DEFAULT, Role::ALL, HOUR, world.app.now() - ago).unwrap()
}

/// A token that says of itself that it needs no signature (RFC 8725 §2.1).
fn unsigned(world: &World) -> String {
    let exp = world.app.now().timestamp() + 3600;
    let roles: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
    let claims = json!({ "sub": BUYER.to_string(), "tenant": 1, "roles": roles, "exp": exp });
    let encoded = |part: serde_json::Value| base64url(part.to_string().as_bytes());
    format!("{}.{}.", encoded(json!({ "alg": "none", "typ": "JWT" })), encoded(claims))
}
