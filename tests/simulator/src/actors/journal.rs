//! What clients were told. It must be true for ever.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handover_application::CommandContext;
use handover_application::use_cases::UseCaseError;
use handover_domain::{OrderId, OrderStatus, PaymentId, ProductId, TenantId, Title, UserId};

use crate::faults::Faults;

/// What a client was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Placed(OrderId),
    Reached(OrderId, OrderStatus),
    Settled(PaymentId),
    /// So many events were redriven in this trace.
    Redriven(String, u64),
    /// The command in this trace was refused for good: it changed nothing.
    Refused(String, String),
}

/// A product and where it is sold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) tenant: TenantId,
    pub(crate) id: ProductId,
    pub(crate) seller: UserId,
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

    pub(crate) fn products(&self) -> Vec<Listed> {
        self.book().products.clone()
    }

    pub(crate) fn orders(&self) -> Vec<(TenantId, OrderId)> {
        self.book().orders.clone()
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
            UseCaseError::Store(_) | UseCaseError::Broker(_) => {
                self.faults.note(who, || format!("does not know: {error}"));
            }
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
