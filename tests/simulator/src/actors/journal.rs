//! Journal of the responses that clients received. What a response states must remain true.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handover_events::TenantId;
use marketplace::CommandContext;
use marketplace::ports::RequestScope;
use marketplace::use_cases::UseCaseError;
use marketplace_domain::{
    Asset, CouponId, InvoiceId, Money, OrderId, OrderStatus, PayableId, PaymentId, ProductId, RefundId,
    RefundStatus, Title, UserId,
};

use crate::faults::Faults;

/// A response that a client received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientResponse {
    Placed(OrderId),
    StatusReached(OrderId, OrderStatus),
    PaymentSettled(PaymentId),
    /// A refund of this order or invoice was requested or is in progress.
    RefundRequested(PayableId, RefundId),
    /// The invoice of the closed month exists.
    Invoiced(InvoiceId),
    /// The gateway's report was accepted: the refund has this result, unless the gateway contradicts itself later.
    RefundSettled(RefundId, RefundStatus),
    /// Assets were granted to a user.
    AssetGranted(GrantRecord),
    /// A redrive with this trace id changed this number of events.
    Redriven(String, u64),
    /// The command with this trace id was rejected for this reason: it must have changed nothing.
    Refused(String, String),
}

/// A grant with its trace id; `amount` in minor units or points, for a coupon its discount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantRecord {
    pub(crate) tenant: TenantId,
    pub(crate) user: UserId,
    pub(crate) asset: Asset,
    pub(crate) amount: i64,
    pub(crate) trace: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IssuedCoupon {
    pub(crate) tenant: TenantId,
    pub(crate) user: UserId,
    pub(crate) id: CouponId,
    pub(crate) discount: Money,
}

/// A request with an idempotency key that lists a product. The seller sends it several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyedListing {
    pub(crate) scope: RequestScope,
    pub(crate) title: Title,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ListedProduct {
    pub(crate) tenant: TenantId,
    pub(crate) id: ProductId,
    pub(crate) seller: UserId,
    pub(crate) price: Money,
}

/// The journal of a run. Clones share it.
#[derive(Clone)]
pub(crate) struct Journal {
    faults: Faults,
    state: Arc<Mutex<JournalState>>,
}

#[derive(Default)]
struct JournalState {
    responses: Vec<ClientResponse>,
    orders: Vec<(TenantId, OrderId)>,
    products: Vec<ListedProduct>,
    titles: Vec<(ListedProduct, Title)>,
    coupons: Vec<IssuedCoupon>,
    /// Requests with idempotency keys, with their responses.
    keyed: Vec<(KeyedListing, Option<String>)>,
}

impl Journal {
    pub(crate) fn new(faults: Faults) -> Journal {
        Journal { faults, state: Arc::default() }
    }

    pub(crate) fn responses(&self) -> Vec<ClientResponse> {
        self.state().responses.clone()
    }

    pub(crate) fn add_product(&self, product: ListedProduct) {
        self.state().products.push(product);
    }

    /// Records a listed product. Titles are unique, so that a product created twice is detected.
    pub(crate) fn record_listed(&self, product: ListedProduct, title: Title) {
        self.faults.note(&format!("seller {}", product.seller), || {
            format!("receives: product {} is listed", product.id)
        });
        let mut state = self.state();
        state.titles.push((product, title));
        state.products.push(product);
    }

    pub(crate) fn titles(&self) -> Vec<(ListedProduct, Title)> {
        self.state().titles.clone()
    }

    /// Records a request before it is sent.
    pub(crate) fn record_request(&self, request: KeyedListing) {
        self.state().keyed.push((request, None));
    }

    /// Records a response to a request with an idempotency key; all responses to one key must be the same.
    pub(crate) fn record_keyed_response(&self, request: &KeyedListing, response: &str) {
        self.faults.note(&format!("seller {}", request.scope.user), || {
            format!("receives for {}: product {response}", request.scope.key)
        });
        let mut state = self.state();
        let Some((_, before)) = state.keyed.iter_mut().find(|(one, _)| one == request) else { return };
        let first = before.get_or_insert_with(|| response.to_owned()).clone();
        drop(state);
        if first != response {
            let key = &request.scope.key;
            self.faults.violation(format!("{key} returned product {first} first, and then {response}"));
        }
    }

    pub(crate) fn has_response(&self, request: &KeyedListing) -> bool {
        self.state().keyed.iter().any(|(one, response)| one == request && response.is_some())
    }

    pub(crate) fn keyed(&self) -> Vec<KeyedListing> {
        self.state().keyed.iter().map(|(request, _)| request.clone()).collect()
    }

    pub(crate) fn keyed_responses(&self) -> Vec<(KeyedListing, Option<String>)> {
        self.state().keyed.clone()
    }

    pub(crate) fn products(&self) -> Vec<ListedProduct> {
        self.state().products.clone()
    }

    pub(crate) fn orders(&self) -> Vec<(TenantId, OrderId)> {
        self.state().orders.clone()
    }

    pub(crate) fn record_coupon(&self, coupon: IssuedCoupon) {
        self.state().coupons.push(coupon);
    }

    /// Whether a grant to this user was acknowledged.
    pub(crate) fn has_grants(&self, tenant: TenantId, user: UserId) -> bool {
        let is_grant = |response: &ClientResponse| matches!(response, ClientResponse::AssetGranted(it) if (it.tenant, it.user) == (tenant, user));
        self.state().responses.iter().any(is_grant)
    }

    pub(crate) fn coupons(&self) -> Vec<IssuedCoupon> {
        self.state().coupons.clone()
    }

    pub(crate) fn record_placed(&self, who: &str, tenant: TenantId, order: OrderId) {
        let mut state = self.state();
        if !state.orders.contains(&(tenant, order)) {
            state.orders.push((tenant, order));
        }
        drop(state);
        self.record(who, ClientResponse::Placed(order));
    }

    pub(crate) fn record(&self, who: &str, response: ClientResponse) {
        self.faults.note(who, || match &response {
            ClientResponse::Placed(order) => format!("receives: order {order} is placed"),
            ClientResponse::StatusReached(order, status) => format!("receives: order {order} is {status}"),
            ClientResponse::PaymentSettled(payment) => format!("receives: payment {payment} is settled"),
            ClientResponse::RefundRequested(of, refund) => {
                format!("receives: {of} is refunded by refund {refund}")
            }
            ClientResponse::Invoiced(invoice) => format!("receives: invoice {invoice} is generated"),
            ClientResponse::RefundSettled(refund, status) => format!("receives: refund {refund} is {status}"),
            ClientResponse::AssetGranted(GrantRecord { user, asset, amount, .. }) => {
                format!("receives: buyer {user} got {} {asset}", asset.show(*amount))
            }
            ClientResponse::Redriven(_, count) => format!("receives: {count} events are redriven"),
            ClientResponse::Refused(_, why) => format!("is refused: {why}"),
        });
        self.state().responses.push(response);
    }

    /// Records an error. A rejection guarantees that nothing changed; after a failure of the system the outcome is
    /// unknown.
    pub(crate) fn record_error<R: Error>(
        &self,
        who: &str,
        context: &CommandContext,
        error: &UseCaseError<R>,
    ) {
        match error {
            UseCaseError::NotFound { .. }
            | UseCaseError::NotAllowed(_)
            | UseCaseError::Refused(_)
            | UseCaseError::KeyReused
            | UseCaseError::Replayed(_) => {
                self.record(who, ClientResponse::Refused(context.trace.trace_id.clone(), error.to_string()));
            }
            // The outcome is not recorded: the client may repeat the request, and the repetition may succeed.
            UseCaseError::InProgress | UseCaseError::Store(_) => {
                self.faults.note(who, || format!("outcome unknown: {error}"));
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, JournalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
