//! Statements on the table `coupons`.

use crate::money;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Dialect, Row, Session, Value, values};
use marketplace::ports::END_OF_IDS;
use marketplace_domain::{Coupon, CouponId, OrderId, UserId};

const COLUMNS: &str = "id, tenant_id, user_id, discount_minor, min_spend_minor, expires_at, status, order_id, version, \
                       create_time, update_time";

fn coupon(row: &Row) -> Result<Coupon, StoreError> {
    let row = row.of("coupons", "id");
    Ok(Coupon {
        id: row.id("id")?,
        tenant: row.id("tenant_id")?,
        user: row.id("user_id")?,
        discount: money(&row, "discount_minor")?,
        min_spend: money(&row, "min_spend_minor")?,
        expires_at: row.time("expires_at")?,
        status: row.named("status")?,
        order: row.opt_id("order_id")?,
        version: row.int("version")?,
        create_time: row.time("create_time")?,
        update_time: row.time("update_time")?,
    })
}

/// The values of the [`COLUMNS`] that follow id and tenant.
fn state_values(coupon: &Coupon) -> Vec<Value> {
    values![
        coupon.user.get(),
        coupon.discount.minor(),
        coupon.min_spend.minor(),
        coupon.expires_at,
        coupon.status.as_str(),
        coupon.order.map(OrderId::get),
        coupon.version,
        coupon.create_time,
        coupon.update_time,
    ]
}

pub(super) async fn by_id(
    session: &mut Session,
    tenant: TenantId,
    id: CouponId,
) -> Result<Option<Coupon>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM coupons WHERE id = ? AND tenant_id = ?");
    session.fetch_one(&sql, values![id.get(), tenant.get()]).await?.as_ref().map(coupon).transpose()
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
    session.fetch(&sql, values).await?.iter().map(coupon).collect()
}

/// Available coupons whose expiry time has passed.
pub(crate) fn to_expire(dialect: &dyn Dialect, now: DateTime<Utc>, most: u32) -> (String, Vec<Value>) {
    let index = dialect.index("idx_coupons_expiry");
    let sql = format!(
        "SELECT {COLUMNS} FROM coupons {index} WHERE status = 'AVAILABLE' AND expires_at <= ? \
         ORDER BY expires_at, id LIMIT ?"
    );
    (sql, values![now, most])
}

pub(super) async fn expired(
    session: &mut Session,
    now: DateTime<Utc>,
    most: u32,
) -> Result<Vec<Coupon>, StoreError> {
    let (sql, values) = to_expire(session.dialect(), now, most);
    session.fetch(&sql, values).await?.iter().map(coupon).collect()
}

pub(super) async fn insert(session: &mut Session, coupon: &Coupon) -> Result<(), StoreError> {
    let values = [values![coupon.id.get(), coupon.tenant.get()], state_values(coupon)].concat();
    session.insert(&format!("INSERT INTO coupons ({COLUMNS})"), values.len(), values, "").await?;
    Ok(())
}

pub(super) async fn advance(session: &mut Session, after: &Coupon) -> Result<Changed, StoreError> {
    let sql = "UPDATE coupons SET user_id = ?, discount_minor = ?, min_spend_minor = ?, expires_at = ?, status = ?, \
               order_id = ?, version = ?, create_time = ?, update_time = ? \
               WHERE id = ? AND tenant_id = ? AND version = ?";
    let values =
        [state_values(after), values![after.id.get(), after.tenant.get(), after.version - 1]].concat();
    Ok(Changed::of(session.execute(sql, values).await?))
}
