//! The reads of sweeps and long pages, which must find their rows by an index however much else there is.

use chrono::{DateTime, Duration, Utc};
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use marketplace_domain::{Asset, OrderId, Purse, UserId};

use super::assets::{coupons, holds, operations};
use super::{orders, refunds};
use crate::session::MarketSession;
use handover_sql::{Dialect, Value};

/// A read: the index that has to serve it, its statement and its values.
pub(crate) type Read = (&'static str, (String, Vec<Value>));

/// The reads, some of them gone on with after an order.
pub(crate) fn sweeps(dialect: &dyn Dialect, now: DateTime<Utc>, order: OrderId, user: UserId) -> Vec<Read> {
    let (tenant, before) = (TenantId::DEFAULT, now - Duration::hours(1));
    let holds = |after| holds::pending(dialect, now, after, 100);
    let orders = |of, after| orders::changed_within(dialect, of, before, now, after, 100);
    let entries = |purse, before| operations::entries(dialect, (tenant, user), purse, before, 100);
    vec![
        ("idx_holds_frozen", holds(None)),
        ("idx_holds_frozen", holds(Some((before, order, Asset::Wallet)))),
        ("idx_refunds_due", refunds::due(dialect, now, 100)),
        ("idx_coupons_expiry", coupons::to_expire(dialect, now, 100)),
        ("idx_orders_updated", orders(None, None)),
        ("idx_orders_updated", orders(Some(tenant), Some((before, order)))),
        ("idx_ledger_account", entries(Purse::Wallet, None)),
        ("idx_ledger_account", entries(Purse::Points, Some(9))),
    ]
}

impl MarketSession {
    /// The plans of [`sweeps`], as the engine writes them, each with the index that has to serve it.
    pub(super) async fn explain_sweeps(
        &mut self,
        now: DateTime<Utc>,
        order: OrderId,
        user: UserId,
    ) -> Result<Vec<(&'static str, String)>, StoreError> {
        let mut plans = Vec::new();
        for (index, (sql, values)) in sweeps(self.dialect(), now, order, user) {
            let sql = format!("{} {sql}", self.dialect().explain());
            let rows = self.fetch(&sql, values).await?;
            plans.push((index, rows.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")));
        }
        Ok(plans)
    }
}
