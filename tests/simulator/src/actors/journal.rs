//! What clients were told. It must be true for ever.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handover_events::TenantId;
use marketplace::CommandContext;
use marketplace::ports::RequestScope;
use marketplace::use_cases::UseCaseError;
use marketplace_domain::{
    Asset, CouponId, Money, OrderId, OrderStatus, PaymentId, ProductId, RefundId, RefundStatus, Title, UserId,
};

use crate::faults::Faults;

/// What a client was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Placed(OrderId),
    Reached(OrderId, OrderStatus),
    Settled(PaymentId),
    /// A refund of this order was begun, or is being processed.
    Refunds(OrderId, RefundId),
    /// The gateway was heard: so the refund ended.
    PaidBack(RefundId, RefundStatus),
    /// So much of this was given to a user, once.
    Given(Gift),
    /// So many events were redriven in this trace.
    Redriven(String, u64),
    /// The command in this trace was refused for good: it changed nothing.
    Refused(String, String),
}

/// What an operator gave in one trace: minor units or points; of a coupon, what it takes off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gift {
    pub(crate) tenant: TenantId,
    pub(crate) user: UserId,
    pub(crate) asset: Asset,
    pub(crate) amount: i64,
    pub(crate) trace: String,
}

/// A coupon, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Issued {
    pub(crate) tenant: TenantId,
    pub(crate) user: UserId,
    pub(crate) id: CouponId,
    pub(crate) discount: Money,
}

/// A listing that is asked for under an idempotency key, again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keyed {
    pub(crate) scope: RequestScope,
    pub(crate) title: Title,
}

/// A product and where it is sold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) tenant: TenantId,
    pub(crate) id: ProductId,
    pub(crate) seller: UserId,
    pub(crate) price: Money,
}

/// What all clients of a run share.
#[derive(Clone)]
pub(crate) struct Journal {
    faults: Faults,
    book: Arc<Mutex<Book>>,
}

#[derive(Default)]
struct Book {
    told: Vec<Told>,
    orders: Vec<(TenantId, OrderId)>,
    products: Vec<Listed>,
    titles: Vec<(Listed, Title)>,
    coupons: Vec<Issued>,
    /// Requests under keys, with what they were answered.
    keyed: Vec<(Keyed, Option<String>)>,
}

impl Journal {
    pub(crate) fn new(faults: Faults) -> Journal {
        Journal { faults, book: Arc::default() }
    }

    pub(crate) fn told(&self) -> Vec<Told> {
        self.book().told.clone()
    }

    pub(crate) fn add_product(&self, product: Listed) {
        self.book().products.push(product);
    }

    /// A seller was told that it is listed. Titles are told apart: one listing is one product.
    pub(crate) fn listed(&self, product: Listed, title: Title) {
        self.faults.note(&format!("seller {}", product.seller), || {
            format!("is told: product {} is listed", product.id)
        });
        let mut book = self.book();
        book.titles.push((product, title));
        book.products.push(product);
    }

    pub(crate) fn titles(&self) -> Vec<(Listed, Title)> {
        self.book().titles.clone()
    }

    /// A seller begins to ask for this.
    pub(crate) fn asked(&self, request: Keyed) {
        self.book().keyed.push((request, None));
    }

    /// A request under a key was answered: always the same.
    pub(crate) fn answered(&self, request: &Keyed, answer: &str) {
        self.faults.note(&format!("seller {}", request.scope.user), || {
            format!("is told under {}: product {answer}", request.scope.key)
        });
        let mut book = self.book();
        let Some((_, before)) = book.keyed.iter_mut().find(|(one, _)| one == request) else { return };
        let first = before.get_or_insert_with(|| answer.to_owned()).clone();
        drop(book);
        if first != answer {
            let key = &request.scope.key;
            self.faults.violation(format!("{key} was answered with product {first}, and with {answer}"));
        }
    }

    pub(crate) fn was_answered(&self, request: &Keyed) -> bool {
        self.book().keyed.iter().any(|(one, answer)| one == request && answer.is_some())
    }

    pub(crate) fn keyed(&self) -> Vec<Keyed> {
        self.book().keyed.iter().map(|(request, _)| request.clone()).collect()
    }

    pub(crate) fn answers(&self) -> Vec<(Keyed, Option<String>)> {
        self.book().keyed.clone()
    }

    pub(crate) fn products(&self) -> Vec<Listed> {
        self.book().products.clone()
    }

    pub(crate) fn orders(&self) -> Vec<(TenantId, OrderId)> {
        self.book().orders.clone()
    }

    /// A coupon was issued.
    pub(crate) fn issued(&self, coupon: Issued) {
        self.book().coupons.push(coupon);
    }

    /// Whether a user was given anything, as far as anybody was told.
    pub(crate) fn has_gifts(&self, tenant: TenantId, user: UserId) -> bool {
        let is_its = |told: &Told| matches!(told, Told::Given(it) if (it.tenant, it.user) == (tenant, user));
        self.book().told.iter().any(is_its)
    }

    pub(crate) fn coupons(&self) -> Vec<Issued> {
        self.book().coupons.clone()
    }

    pub(crate) fn placed(&self, who: &str, tenant: TenantId, order: OrderId) {
        let mut book = self.book();
        if !book.orders.contains(&(tenant, order)) {
            book.orders.push((tenant, order));
        }
        drop(book);
        self.tell(who, Told::Placed(order));
    }

    pub(crate) fn tell(&self, who: &str, told: Told) {
        self.faults.note(who, || match &told {
            Told::Placed(order) => format!("is told: order {order} is placed"),
            Told::Reached(order, status) => format!("is told: order {order} is {status}"),
            Told::Settled(payment) => format!("is told: payment {payment} is settled"),
            Told::Refunds(order, refund) => format!("is told: order {order} is paid back by refund {refund}"),
            Told::PaidBack(refund, status) => format!("is told: refund {refund} is {status}"),
            Told::Given(Gift { user, asset, amount, .. }) => {
                format!("is told: buyer {user} has {} {asset} more", asset.show(*amount))
            }
            Told::Redriven(_, count) => format!("is told: {count} events are redriven"),
            Told::Refused(_, why) => format!("is refused: {why}"),
        });
        self.book().told.push(told);
    }

    /// An error: a refusal is a promise that nothing happened, a failure of the system is none.
    pub(crate) fn failed(&self, who: &str, context: &CommandContext, error: &UseCaseError) {
        match error {
            UseCaseError::NotFound { .. }
            | UseCaseError::NotAllowed { .. }
            | UseCaseError::Order(_)
            | UseCaseError::Product(_)
            | UseCaseError::Payment(_)
            | UseCaseError::Refund(_)
            | UseCaseError::Asset(_)
            | UseCaseError::AssetsNotLocked
            | UseCaseError::KeyTaken
            | UseCaseError::NothingHeld => {
                self.tell(who, Told::Refused(context.trace.trace_id.clone(), error.to_string()));
            }
            // Another attempt at the same request may do it.
            UseCaseError::InProgress | UseCaseError::Store(_) | UseCaseError::Broker(_) => {
                self.faults.note(who, || format!("does not know: {error}"));
            }
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
