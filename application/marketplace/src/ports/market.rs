//! Units of work and views of the marketplace: its repositories and the outbox.

use super::{
    AssetQueries, AssetRepo, CreditQueries, CreditRepo, EffectQueries, EffectRepo, FindingQueries,
    FindingRepo, GatewayReportQueries, GatewayReportRepo, IdBlocks, IdQueries, InvoiceQueries, InvoiceRepo,
    NotificationQueries, NotificationRepo, OrderQueries, OrderRepo, PaymentQueries, PaymentRepo,
    PersonalTextQueries, PersonalTextRepo, ProductQueries, ProductRepo, RefundQueries, RefundRepo,
    RequestQueries, RequestRepo,
};
use handover_outbox::Transactor;
use handover_outbox::ports::{Store, UnitOfWork, View};

/// Reads all data of the marketplace and the outbox.
pub trait MarketView:
    View
    + ProductQueries
    + OrderQueries
    + PaymentQueries
    + RefundQueries
    + GatewayReportQueries
    + FindingQueries
    + AssetQueries
    + EffectQueries
    + NotificationQueries
    + CreditQueries
    + IdQueries
    + InvoiceQueries
    + RequestQueries
    + PersonalTextQueries
{
}

impl<T> MarketView for T where
    T: View
        + ProductQueries
        + OrderQueries
        + PaymentQueries
        + RefundQueries
        + GatewayReportQueries
        + FindingQueries
        + AssetQueries
        + EffectQueries
        + NotificationQueries
        + CreditQueries
        + IdQueries
        + InvoiceQueries
        + RequestQueries
        + PersonalTextQueries
        + ?Sized
{
}

/// One transaction with the repositories of the marketplace and the outbox. Dropping it rolls the transaction back.
pub trait MarketUnit:
    UnitOfWork
    + MarketView
    + ProductRepo
    + OrderRepo
    + PaymentRepo
    + RefundRepo
    + GatewayReportRepo
    + FindingRepo
    + InvoiceRepo
    + AssetRepo
    + EffectRepo
    + NotificationRepo
    + CreditRepo
    + RequestRepo
    + PersonalTextRepo
    + IdBlocks
{
}

impl<T> MarketUnit for T where
    T: UnitOfWork
        + MarketView
        + ProductRepo
        + OrderRepo
        + PaymentRepo
        + RefundRepo
        + GatewayReportRepo
        + FindingRepo
        + InvoiceRepo
        + AssetRepo
        + EffectRepo
        + NotificationRepo
        + CreditRepo
        + RequestRepo
        + PersonalTextRepo
        + IdBlocks
        + ?Sized
{
}

/// Unit of work of the marketplace, with the adapter chosen at run time. Always use this alias: in `&mut dyn MarketUnit`
/// with an elided lifetime, the trait object has a different lifetime bound and is a different type.
pub type Work = dyn MarketUnit;

/// A store of the marketplace.
pub type MarketStore = dyn Store<Unit = Work, View = dyn MarketView>;

/// [`Transactor`] for units of work of the marketplace.
pub type MarketTransactor = Transactor<Work, dyn MarketView>;
