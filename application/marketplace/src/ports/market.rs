//! The units and views of the marketplace: its repositories, and the outbox.

use super::{
    AssetQueries, AssetRepo, CreditQueries, CreditRepo, EffectQueries, EffectRepo, IdBlocks, IdQueries,
    NotificationQueries, NotificationRepo, OrderQueries, OrderRepo, PaymentQueries, PaymentRepo,
    ProductQueries, ProductRepo, RefundQueries, RefundRepo, RequestQueries, RequestRepo,
};
use handover_outbox::ports::{Store, UnitOfWork, View};

/// Everything that can be read of the marketplace, and of the outbox.
pub trait MarketView:
    View
    + ProductQueries
    + OrderQueries
    + PaymentQueries
    + RefundQueries
    + AssetQueries
    + EffectQueries
    + NotificationQueries
    + CreditQueries
    + IdQueries
    + RequestQueries
{
}

impl<T> MarketView for T where
    T: View
        + ProductQueries
        + OrderQueries
        + PaymentQueries
        + RefundQueries
        + AssetQueries
        + EffectQueries
        + NotificationQueries
        + CreditQueries
        + IdQueries
        + RequestQueries
        + ?Sized
{
}

/// One transaction: the repositories of the marketplace, and the outbox. Dropping it undoes everything.
pub trait MarketUnit:
    UnitOfWork
    + MarketView
    + ProductRepo
    + OrderRepo
    + PaymentRepo
    + RefundRepo
    + AssetRepo
    + EffectRepo
    + NotificationRepo
    + CreditRepo
    + RequestRepo
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
        + AssetRepo
        + EffectRepo
        + NotificationRepo
        + CreditRepo
        + RequestRepo
        + IdBlocks
        + ?Sized
{
}

/// A unit of the marketplace whose adapter is chosen at run time. To be named by this alias: `&mut dyn MarketUnit` is
/// another type wherever a lifetime is left out.
pub type Work = dyn MarketUnit;

/// A store of the marketplace.
pub type MarketStore = dyn Store<Unit = Work, View = dyn MarketView>;
