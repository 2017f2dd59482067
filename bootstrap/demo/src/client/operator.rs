//! Requests of operators.

use chrono::{SecondsFormat, TimeDelta};
use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use marketplace_domain::{BillingPeriod, InvoiceId, Money, OrderId, Points, UserId};
use serde_json::json;

use super::{Api, ApiResponse, NoResponse};

/// Validity of a coupon: longer than any simulated day.
const COUPON_VALIDITY: TimeDelta = TimeDelta::days(1);

impl Api {
    /// Deposits money into the wallet of a user.
    pub(in super::super) async fn deposit(
        &self,
        operator: UserId,
        user: UserId,
        amount: Money,
    ) -> Result<ApiResponse, NoResponse> {
        let path = format!("/api/v1/ops/wallets/{user}/deposits");
        self.post(operator, &path, &json!({"amount": amount})).await
    }

    /// Grants points to a user.
    pub(in super::super) async fn grant(
        &self,
        operator: UserId,
        user: UserId,
        points: Points,
    ) -> Result<ApiResponse, NoResponse> {
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
    ) -> Result<ApiResponse, NoResponse> {
        let expires_at = (SystemClock.now() + COUPON_VALIDITY).to_rfc3339_opts(SecondsFormat::Secs, true);
        let body = json!({
            "userId": user, "discount": discount, "minSpend": min_spend, "expiresAt": expires_at,
        });
        self.post(operator, "/api/v1/ops/coupons", &body).await
    }

    pub(in super::super) async fn refund_as_operator(
        &self,
        operator: UserId,
        order: OrderId,
        reason: &str,
    ) -> Result<ApiResponse, NoResponse> {
        let path = format!("/api/v1/ops/orders/{order}/refunds");
        self.post(operator, &path, &json!({"reason": reason})).await
    }

    pub(in super::super) async fn refunds(
        &self,
        operator: UserId,
        order: OrderId,
    ) -> Result<ApiResponse, NoResponse> {
        self.get(operator, &format!("/api/v1/ops/orders/{order}/refunds")).await
    }

    /// Generates the invoice of the operator's tenant for a month.
    pub(in super::super) async fn generate_invoice(
        &self,
        operator: UserId,
        period: BillingPeriod,
    ) -> Result<ApiResponse, NoResponse> {
        self.post(operator, "/api/v1/ops/invoices/generate", &json!({"period": period})).await
    }

    /// Starts the payment of an invoice.
    pub(in super::super) async fn pay_invoice(
        &self,
        operator: UserId,
        invoice: InvoiceId,
    ) -> Result<ApiResponse, NoResponse> {
        let path = format!("/api/v1/invoices/{invoice}/payments");
        self.post(operator, &path, &json!({"paymentMethod": "bank-transfer"})).await
    }

    pub(in super::super) async fn refund_invoice(
        &self,
        operator: UserId,
        invoice: InvoiceId,
    ) -> Result<ApiResponse, NoResponse> {
        let path = format!("/api/v1/ops/invoices/{invoice}/refunds");
        self.post(operator, &path, &json!({"reason": "billed by mistake"})).await
    }

    /// Creates a webhook endpoint for all events.
    pub(in super::super) async fn create_endpoint(
        &self,
        operator: UserId,
        url: &str,
    ) -> Result<ApiResponse, NoResponse> {
        let body = json!({"url": url, "eventTypes": ["*"], "maxInFlight": 16});
        self.post(operator, "/api/v1/webhooks", &body).await
    }

    pub(in super::super) async fn endpoint(
        &self,
        operator: UserId,
        endpoint: &str,
    ) -> Result<ApiResponse, NoResponse> {
        self.get(operator, &format!("/api/v1/webhooks/{endpoint}")).await
    }

    pub(in super::super) async fn enable_endpoint(
        &self,
        operator: UserId,
        endpoint: &str,
    ) -> Result<ApiResponse, NoResponse> {
        self.post(operator, &format!("/api/v1/webhooks/{endpoint}/enable"), &json!({})).await
    }

    /// Lists up to 100 open dead letters.
    pub(in super::super) async fn dead_letters(&self, operator: UserId) -> Result<ApiResponse, NoResponse> {
        self.get(operator, "/api/v1/ops/dead-letters?status=OPEN&limit=100").await
    }

    pub(in super::super) async fn discard(
        &self,
        operator: UserId,
        keys: &[&str],
        reason: &str,
    ) -> Result<ApiResponse, NoResponse> {
        let body = json!({"keys": keys, "reason": reason});
        self.post(operator, "/api/v1/ops/dead-letters/discard", &body).await
    }
}
