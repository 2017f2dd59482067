//! Types of callers: the columns of the access table.

use std::time::Duration;

use handover_events::TenantId;
use handover_http::Tokens;
use marketplace::Role;
use serde_json::json;

use crate::client::Request;
use crate::tokens::base64url;
use crate::world::{BUYER, GATEWAY_SECRET, HOUR, SECRET, SELLER, World};

pub(crate) const OTHER_BUYER: i64 = 10;
pub(crate) const OTHER_SELLER: i64 = 11;
const STAFF: i64 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerKind {
    Anonymous,
    /// A token of the buyer, issued three hours ago for one hour.
    Expired,
    WrongKey,
    Unsigned,
    /// The payment gateway: it signs the body and has no token.
    Gateway,
    Buyer,
    OtherBuyer,
    Seller,
    OtherSeller,
    /// A user of another tenant with the buyer's id.
    OtherTenantUser,
    Operator,
    OtherOperator,
    /// A caller with the role `platform`; the token names the tenant of the orders.
    Platform,
    /// A caller with only the role `pii`.
    Pii,
}

impl CallerKind {
    /// All types of callers, in the order of the table's columns.
    pub(crate) const ALL: [CallerKind; 14] = [
        CallerKind::Anonymous,
        CallerKind::Expired,
        CallerKind::WrongKey,
        CallerKind::Unsigned,
        CallerKind::Gateway,
        CallerKind::Buyer,
        CallerKind::OtherBuyer,
        CallerKind::Seller,
        CallerKind::OtherSeller,
        CallerKind::OtherTenantUser,
        CallerKind::Operator,
        CallerKind::OtherOperator,
        CallerKind::Platform,
        CallerKind::Pii,
    ];

    /// Whether the audit log records the caller as an operator.
    pub(crate) fn is_operator(self) -> bool {
        match self {
            CallerKind::Operator | CallerKind::OtherOperator | CallerKind::Platform => true,
            CallerKind::Anonymous
            | CallerKind::Expired
            | CallerKind::WrongKey
            | CallerKind::Unsigned
            | CallerKind::Gateway
            | CallerKind::Buyer
            | CallerKind::OtherBuyer
            | CallerKind::Seller
            | CallerKind::OtherSeller
            | CallerKind::OtherTenantUser
            | CallerKind::Pii => false,
        }
    }

    pub(crate) const fn is_of_another_tenant(self) -> bool {
        matches!(self, CallerKind::OtherTenantUser | CallerKind::OtherOperator)
    }

    /// Adds the caller's credentials to a request.
    pub(crate) fn sends(self, world: &World, request: Request) -> Request {
        let token = |user, tenant, role| world.token(user, tenant, &[role]);
        let token = match self {
            CallerKind::Anonymous => return request,
            CallerKind::Gateway => return request.signed(GATEWAY_SECRET, 0),
            CallerKind::Expired => issued(world, SECRET, HOUR * 3),
            CallerKind::WrongKey => {
                issued(world, b"another secret of at least thirty-two bytes", Duration::ZERO)
            }
            CallerKind::Unsigned => unsigned(world),
            CallerKind::Buyer => token(BUYER, 1, Role::User),
            CallerKind::OtherBuyer => token(OTHER_BUYER, 1, Role::User),
            CallerKind::Seller => token(SELLER, 1, Role::User),
            CallerKind::OtherSeller => token(OTHER_SELLER, 1, Role::User),
            CallerKind::OtherTenantUser => token(BUYER, 2, Role::User),
            CallerKind::Operator => token(STAFF, 1, Role::Operator),
            CallerKind::OtherOperator => token(STAFF, 2, Role::Operator),
            CallerKind::Platform => token(STAFF, 1, Role::Platform),
            CallerKind::Pii => token(STAFF, 1, Role::Pii),
        };
        request.token(&token)
    }
}

/// A token of the buyer with every role, issued `ago` before now for one hour.
fn issued(world: &World, secret: &[u8], ago: Duration) -> String {
    let roles: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
    let tokens = Tokens::new(secret).unwrap();
    tokens.issue(BUYER, TenantId::DEFAULT, &roles, HOUR, world.app.tx.now() - ago).unwrap()
}

/// A token with the algorithm `none` (RFC 8725 §2.1).
fn unsigned(world: &World) -> String {
    let exp = world.app.tx.now().timestamp() + 3600;
    let roles: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
    let claims = json!({ "sub": BUYER.to_string(), "tenant": 1, "roles": roles, "exp": exp });
    let encoded = |part: serde_json::Value| base64url(part.to_string().as_bytes());
    format!("{}.{}.", encoded(json!({ "alg": "none", "typ": "JWT" })), encoded(claims))
}
