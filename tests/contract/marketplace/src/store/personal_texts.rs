//! Rules for the texts about persons.

use handover_contract::samples::{later, tenant};
use handover_contract::work::{changes_none, changes_one};
use handover_outbox::MASK;
use marketplace::ports::{FindingFilter, SentRefundRequest};
use marketplace_domain::{
    GatewayReport, OrderStatus, Product, RecordedFinding, Refund, RefundCause, RefundStatus, ReportState,
};

use super::refunds::sent_request;
use super::{MarketRig, in_unit, view};
use crate::samples::{
    acknowledged, closed_by, completed_request, finding, gateway_report, open_report, order, order_id,
    order_moved_to, processing_request, product, product_id, refund, refund_id, refund_moved_to, title,
};

/// Titles are masked once, in one tenant; a masked product has its next version.
pub async fn titles_are_masked_once(rig: &dyn MarketRig) {
    let foreign = Product { tenant: tenant(2), ..product(2) };
    in_unit!(rig, |unit| {
        unit.insert_product(&product(1)).await.unwrap();
        unit.insert_product(&foreign).await.unwrap();
    });
    let ids = [product_id(1), product_id(2), product_id(3)];
    for changed in [1, 0] {
        assert_eq!(in_unit!(rig, |unit| unit.erase_titles(tenant(1), &ids).await.unwrap()), changed);
    }
    let mut view = view(rig).await;
    let masked = Product { title: title(MASK), version: 2, ..product(1) };
    assert_eq!(view.product_by_id(tenant(1), product_id(1)).await.unwrap(), Some(masked));
    assert_eq!(view.product_by_id(tenant(2), product_id(2)).await.unwrap(), Some(foreign));
}

/// Texts of orders, of their settled refunds and of decided reports are masked once, and nothing else changes.
pub async fn texts_of_orders_are_masked_once(rig: &dyn MarketRig) {
    let shipped = order_moved_to(&order(1), OrderStatus::Shipped, later(1));
    let refunds = [
        Refund { last_error: Some("Ann".into()), of: order_id(1).into(), ..refund(1, 1) },
        Refund { cause: RefundCause::LatePayment, of: order_id(1).into(), ..refund(2, 2) },
        Refund { of: order_id(2).into(), ..refund(3, 3) },
    ];
    let of_other = SentRefundRequest { order: Some(order_id(2)), ..sent_request(3, 2) };
    let requests = [sent_request(1, 2), sent_request(1, 3), of_other]
        .map(|request| SentRefundRequest { error: Some("Ann".into()), ..request });
    let refused = |report| GatewayReport { error: Some("Ann".into()), ..report };
    let (state, closed) = (ReportState::Closed, Some(closed_by("user:9")));
    let decided = GatewayReport { state, closed, ..refused(open_report("decided", 1)) };
    let reports = [decided, refused(open_report("open", 1)), refused(gateway_report("other", 2))];
    in_unit!(rig, |unit| {
        unit.insert_order(&order(1)).await.unwrap();
        changes_one(unit.advance_order(&shipped).await);
        for report in &reports {
            unit.insert_gateway_report(report).await.unwrap();
        }
        for refund in &refunds {
            unit.insert_refund(refund).await.unwrap();
        }
        for request in &requests {
            unit.insert_refund_request(request).await.unwrap();
        }
    });
    let orders = [order_id(1), order_id(3)];
    let erase = async || in_unit!(rig, |unit| unit.erase_order_texts(tenant(1), &orders).await.unwrap());
    assert_eq!(erase().await, 4, "the order, a report and two requests; its refunds are in progress");
    let settled = refunds.clone().map(|refund| refund_moved_to(&refund, RefundStatus::Success));
    in_unit!(rig, |unit| {
        for refund in &settled {
            changes_one(unit.advance_refund(refund).await);
        }
    });
    assert_eq!((erase().await, erase().await), (1, 0));
    let mut view = view(rig).await;
    let found = view.order_by_id(tenant(1), order_id(1)).await.unwrap().unwrap();
    let shipment = found.shipment.clone().unwrap();
    assert_eq!((shipment.carrier(), shipment.tracking_no()), (MASK, MASK));
    assert_eq!(marketplace_domain::Order { shipment: shipped.shipment.clone(), ..found }, shipped);
    let [first, late, other] = settled;
    let last_error = first.last_error.as_ref().map(|_| MASK.to_owned());
    let masked = Refund { reason: MASK.into(), last_error, ..first };
    for (id, expected) in [(1, masked), (2, late), (3, other)] {
        assert_eq!(view.refund_by_id(refund_id(id)).await.unwrap(), Some(expected));
    }
    for (refund, error) in [(1, MASK), (3, "Ann")] {
        let requests = view.refund_requests(refund_id(refund), 9).await.unwrap();
        assert!(requests.iter().all(|request| request.error.as_deref() == Some(error)), "{requests:?}");
        assert!(!requests.is_empty());
    }
    let [mut decided, open, other] = reports;
    decided.error = Some(MASK.into());
    decided.closed.iter_mut().for_each(|by| MASK.clone_into(&mut by.reason));
    for expected in [decided, open, other] {
        let found = view.gateway_report_by_key(&expected.key).await.unwrap();
        assert_eq!(found.map(|report| report.effect), Some(expected));
    }
}

/// The reason with which a finding was acknowledged is masked once; the masked finding has its next version.
pub async fn reasons_of_findings_are_masked_once(rig: &dyn MarketRig) {
    let written = [acknowledged(&finding("a"), "user:9"), finding("b")];
    in_unit!(rig, |unit| {
        for finding in &written {
            unit.insert_finding(finding).await.unwrap();
        }
    });
    let page = view(rig).await.findings_page(FindingFilter::default(), None, 10).await.unwrap();
    let ids: Vec<i64> = page.iter().map(|finding| finding.id).collect();
    for changed in [1, 0] {
        assert_eq!(in_unit!(rig, |unit| unit.erase_finding_reasons(&ids).await.unwrap()), changed);
    }
    let page = view(rig).await.findings_page(FindingFilter::default(), None, 10).await.unwrap();
    let [mut first, second] = written;
    if let RecordedFinding { acknowledged: Some(by), .. } = &mut first {
        MASK.clone_into(&mut by.reason);
    }
    first.version += 1;
    assert_eq!(page.into_iter().map(|it| it.effect).collect::<Vec<_>>(), [second, first]);
}

/// A change of a finding that was read before its erasure is refused, so that it does not write the reason back.
pub async fn finding_does_not_advance_from_its_version_before_the_erasure(rig: &dyn MarketRig) {
    let written = acknowledged(&finding("a"), "user:9");
    in_unit!(rig, |unit| unit.insert_finding(&written).await.unwrap());
    let stored = async || {
        let RecordedFinding { tenant, kind, subject, .. } = &written;
        view(rig).await.finding_by_subject(*tenant, *kind, subject).await.unwrap().unwrap()
    };
    let id = stored().await.id;
    let resolved = written.resolved(later(9)).unwrap();
    assert_eq!(in_unit!(rig, |unit| unit.erase_finding_reasons(&[id]).await.unwrap()), 1);
    in_unit!(rig, |unit| changes_none(unit.advance_finding(id, &resolved).await));
    let masked = stored().await.effect;
    assert_eq!(masked.acknowledged.as_ref().map(|by| by.reason.as_str()), Some(MASK));
    let resolved = masked.resolved(later(9)).unwrap();
    in_unit!(rig, |unit| changes_one(unit.advance_finding(id, &resolved).await));
    assert_eq!(stored().await.effect, resolved);
}

/// A change of a refund that was read before its erasure does not write the reason back.
pub async fn reason_of_refund_stays_masked_after_a_later_change(rig: &dyn MarketRig) {
    let failed = refund_moved_to(&refund(1, 1), RefundStatus::Failed);
    let late = refund_moved_to(&failed, RefundStatus::Success);
    in_unit!(rig, |unit| {
        unit.insert_refund(&refund(1, 1)).await.unwrap();
        changes_one(unit.advance_refund(&failed).await);
    });
    let orders = [order_id(1)];
    assert_eq!(in_unit!(rig, |unit| unit.erase_order_texts(tenant(1), &orders).await.unwrap()), 1);
    in_unit!(rig, |unit| changes_one(unit.advance_refund(&late).await));
    let found = view(rig).await.refund_by_id(refund_id(1)).await.unwrap();
    assert_eq!(found, Some(Refund { reason: MASK.into(), ..late }));
}

/// Stored responses are returned once, page by page; a request without a response is not.
pub async fn stored_responses_are_returned_page_by_page(rig: &dyn MarketRig) {
    let request = |key: &str| processing_request(key, "t");
    let completed = ["a", "b", "c"].map(|key| completed_request(&request(key), "1"));
    in_unit!(rig, |unit| {
        for request in completed.iter().chain([&request("d")]) {
            unit.claim_request(request).await.unwrap();
        }
    });
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = view(rig).await.stored_responses(after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(seen.len() < 4, "the pages do not end");
        after = Some(last.id);
        seen.extend(page.into_iter().map(|it| it.effect));
    }
    assert_eq!(seen, completed);
}
