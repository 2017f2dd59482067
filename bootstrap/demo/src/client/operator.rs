//! What operators ask of the API.

use chrono::{SecondsFormat, TimeDelta};
use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use marketplace_domain::{Money, OrderId, Points, UserId};
use serde_json::json;

use super::{Answer, Api, Unanswered};

/// How long a coupon can be used: longer than any day takes.
const GOOD_FOR: TimeDelta = TimeDelta::days(1);

impl Api {
    /// Gives a user wallet balance.
    pub(in super::super) async fn deposit(
        &self,
        operator: UserId,
        user: UserId,
        amount: Money,
    ) -> Result<Answer, Unanswered> {
        let path = format!("/api/v1/ops/wallets/{user}/deposits");
        self.post(operator, &path, &json!({"amount": amount})).await
    }

    /// Gives a user points.
    pub(in super::super) async fn grant(
        &self,
        operator: UserId,
        user: UserId,
        points: Points,
    ) -> Result<Answer, Unanswered> {
        let path = format!("/api/v1/ops/points/{user}/grants");
        self.post(operator, &path, &json!({"points": points})).await
    }

    /// Issues a coupon.
    pub(in super::super) async fn issue(
        &self,
        operator: UserId,
        user: UserId,
        discount: Money,
        min_spend: Money,
    ) -> Result<Answer, Unanswered> {
        let expires_at = (SystemClock.now() + GOOD_FOR).to_rfc3339_opts(SecondsFormat::Secs, true);
        let body = json!({
            "userId": user, "discount": discount, "minSpend": min_spend, "expiresAt": expires_at,
        });
        self.post(operator, "/api/v1/ops/coupons", &body).await
    }

    /// The refunds of an order.
    pub(in super::super) async fn refunds(
        &self,
        operator: UserId,
        order: OrderId,
    ) -> Result<Answer, Unanswered> {
        self.get(operator, &format!("/api/v1/orders/{order}/refunds")).await
    }

    /// The dead letters that nobody has decided about.
    pub(in super::super) async fn dead_letters(&self, operator: UserId) -> Result<Answer, Unanswered> {
        self.get(operator, "/api/v1/ops/dead-letters?status=OPEN&limit=100").await
    }

    /// Gives dead letters up.
    pub(in super::super) async fn discard(
        &self,
        operator: UserId,
        keys: &[&str],
        reason: &str,
    ) -> Result<Answer, Unanswered> {
        let body = json!({"keys": keys, "reason": reason});
        self.post(operator, "/api/v1/ops/dead-letters/discard", &body).await
    }
}
