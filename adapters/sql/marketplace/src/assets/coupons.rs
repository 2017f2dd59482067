//! Statements on the table `coupons`.

use crate::AmountFields;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Dialect, Row, Session, Table, Value, table, values};
use marketplace::ports::{END_OF_IDS, ExpiredCoupon};
use marketplace_domain::{Coupon, CouponId, OrderId, UserId};

table! {
    CouponTable("coupons" by "id"), read row as Coupon, write coupon as &'a Coupon;
    insert { id: id("id" = coupon.id.get()), tenant: id("tenant_id" = coupon.tenant.get()) }
    update {
        user: id("user_id" = coupon.user.get()),
        discount: money("discount_minor" = coupon.discount.minor()),
        min_spend: money("min_spend_minor" = coupon.min_spend.minor()),
        expires_at: time("expires_at" = coupon.expires_at),
        status: named("status" = coupon.status.as_str()),
        order: opt_id("order_id" = coupon.order.map(OrderId::get)),
        version: int("version" = coupon.version),
        create_time: time("create_time" = coupon.create_time),
        update_time: time("update_time" = coupon.update_time),
    }
}

const COLUMNS: &str = CouponTable::COLUMNS;

pub(super) async fn by_id(
    session: &mut Session,
    tenant: TenantId,
    id: CouponId,
) -> Result<Option<Coupon>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM coupons WHERE id = ? AND tenant_id = ?");
    session
        .fetch_one(&sql, values![id.get(), tenant.get()])
        .await?
        .as_ref()
        .map(CouponTable::read)
        .transpose()
}

pub(super) async fn page(
    session: &mut Session,
    tenant: TenantId,
    user: UserId,
    before: Option<CouponId>,
    most: u32,
) -> Result<Vec<Coupon>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM coupons WHERE tenant_id = ? AND user_id = ? AND id < ? ORDER BY id DESC LIMIT ?"
    );
    let before = before.map_or(END_OF_IDS, CouponId::get);
    let values = values![tenant.get(), user.get(), before, most];
    session.fetch(&sql, values).await?.iter().map(CouponTable::read).collect()
}

/// A page of the available coupons whose expiry time has passed.
pub(crate) fn to_expire(
    dialect: &dyn Dialect,
    now: DateTime<Utc>,
    after: Option<(DateTime<Utc>, CouponId)>,
    most: u32,
) -> (String, Vec<Value>) {
    let index = dialect.index("idx_coupons_expiry");
    let mut sql = format!(
        "SELECT tenant_id, id, expires_at FROM coupons {index} WHERE status = 'AVAILABLE' AND expires_at <= ?"
    );
    let mut values = values![now];
    if let Some((expires, id)) = after {
        // `expires_at >= ?` starts the scan at the cursor, as for the pending holds.
        sql.push_str(" AND expires_at >= ? AND (expires_at > ? OR id > ?)");
        values.extend(values![expires, expires, id.get()]);
    }
    sql.push_str(" ORDER BY expires_at, id LIMIT ?");
    values.push(most.into());
    (sql, values)
}

pub(super) async fn expired(
    session: &mut Session,
    now: DateTime<Utc>,
    after: Option<(DateTime<Utc>, CouponId)>,
    most: u32,
) -> Result<Vec<ExpiredCoupon>, StoreError> {
    let (sql, values) = to_expire(session.dialect(), now, after, most);
    session.fetch(&sql, values).await?.iter().map(expired_coupon).collect()
}

fn expired_coupon(row: &Row) -> Result<ExpiredCoupon, StoreError> {
    let row = CouponTable::fields(row);
    Ok(ExpiredCoupon { tenant: row.id("tenant_id")?, id: row.id("id")?, expires_at: row.time("expires_at")? })
}

pub(super) async fn insert(session: &mut Session, coupon: &Coupon) -> Result<(), StoreError> {
    session.insert_into::<CouponTable>(CouponTable::values(coupon), "").await
}

pub(super) async fn advance(session: &mut Session, after: &Coupon) -> Result<Changed, StoreError> {
    let updated = CouponTable::updated_values(after);
    crate::session::advance::<CouponTable>(session, updated, after.tenant, after.id.get(), after.version - 1)
        .await
}
