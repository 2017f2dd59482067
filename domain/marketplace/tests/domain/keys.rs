//! Idempotency keys of asset operations: the keys that document 004 defines, and the keys that this application adds.

use std::collections::BTreeSet;

use handover_events::MAX_ID;
use marketplace_domain::{
    Asset, CouponId, OperationKey, OperationKind, OrderId, PaymentId, RefundId, UserId,
};

use crate::common::id;

/// The table "幂等键设计" of document 004, unchanged: operation, format, example.
const TABLE: [(&str, &str, &str); 12] = [
    ("优惠券锁定", "order:{orderId}:checkout", "order:123:checkout"),
    ("优惠券核销", "order:{orderId}:commit", "order:123:commit"),
    ("优惠券释放", "order:{orderId}:release", "order:123:release"),
    ("钱包冻结", "wallet:{orderId}:freeze", "wallet:123:freeze"),
    ("钱包提交", "wallet:{orderId}:commit", "wallet:123:commit"),
    ("钱包释放", "wallet:{orderId}:release", "wallet:123:release"),
    ("钱包回退", "wallet:{refundId}:revert", "wallet:456:revert"),
    ("积分冻结", "points:{orderId}:freeze", "points:123:freeze"),
    ("积分提交", "points:{orderId}:commit", "points:123:commit"),
    ("积分释放", "points:{orderId}:release", "points:123:release"),
    ("积分回退", "points:{refundId}:revert", "points:456:revert"),
    ("积分赚取", "points:{orderId}:earn", "points:123:earn"),
];

/// The key of each operation in [`TABLE`], in the same sequence.
fn table_of(order: OrderId, refund: RefundId) -> [OperationKey; 12] {
    [
        OperationKey::freeze(Asset::Coupon, order),
        OperationKey::commit(Asset::Coupon, order),
        OperationKey::release(Asset::Coupon, order),
        OperationKey::freeze(Asset::Wallet, order),
        OperationKey::commit(Asset::Wallet, order),
        OperationKey::release(Asset::Wallet, order),
        OperationKey::revert(Asset::Wallet, refund),
        OperationKey::freeze(Asset::Points, order),
        OperationKey::commit(Asset::Points, order),
        OperationKey::release(Asset::Points, order),
        OperationKey::revert(Asset::Points, refund),
        OperationKey::earn(order),
    ]
}

/// The keys that this application adds to those of document 004.
fn additional_keys(
    order: OrderId,
    refund: RefundId,
    payment: PaymentId,
    coupon: CouponId,
) -> [OperationKey; 9] {
    [
        OperationKey::return_used(order),
        OperationKey::unearn(refund),
        OperationKey::capture(payment, 1),
        OperationKey::capture(payment, 2),
        OperationKey::payout(refund, 1),
        OperationKey::payout(refund, 2),
        OperationKey::reversal(refund, 1),
        OperationKey::reversal(refund, 2),
        OperationKey::issue(coupon),
    ]
}

fn every_key_of(number: i64) -> Vec<OperationKey> {
    let additional = additional_keys(id(number), id(number), id(number), id(number));
    table_of(id(number), id(number)).into_iter().chain(additional).collect()
}

#[test]
fn operation_keys_match_the_table_of_seed_004() {
    for ((operation, format, example), key) in TABLE.iter().zip(table_of(id(123), id(456))) {
        assert_eq!(key.as_str(), *example, "{operation}");
        assert_eq!(format.replace("{orderId}", "123").replace("{refundId}", "456"), *example, "{operation}");
    }
}

#[test]
fn additional_keys_have_the_format_of_the_keys_of_seed_004() {
    let keys = additional_keys(id(123), id(456), id(789), id(80_001)).map(|key| key.to_string());
    assert_eq!(
        keys,
        [
            "order:123:giveback",
            "points:456:unearn",
            "payment:789:capture",
            "payment:789:capture:2",
            "refund:456:payout",
            "refund:456:payout:2",
            "refund:456:reversal",
            "refund:456:reversal:2",
            "coupon:80001:issue"
        ]
    );
}

#[test]
fn keys_of_different_operations_differ_even_with_equal_ids() {
    let keys: Vec<_> = [1, 11, 123, MAX_ID].into_iter().flat_map(every_key_of).collect();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
}

#[test]
fn operator_keys_never_equal_keys_of_other_operations() {
    let user: UserId = 10.try_into().unwrap();
    let operator: UserId = 9.try_into().unwrap();
    let others: BTreeSet<_> = every_key_of(123).into_iter().collect();
    for kind in OperationKind::ALL {
        for text in ["123", "123:commit", "order:123:commit", "1:issue", ""] {
            assert!(
                !others.contains(&OperationKey::by_operator(*kind, user, Some(operator), text)),
                "{kind} {text}"
            );
        }
    }
    assert_eq!(
        OperationKey::by_operator(OperationKind::Deposit, user, Some(operator), "k-1").as_str(),
        "deposit:10:9:k-1"
    );
    assert_eq!(OperationKey::by_operator(OperationKind::Grant, user, None, "k-1").as_str(), "grant:10:0:k-1");
}

#[test]
fn keys_fit_their_column_and_are_visible_ascii() {
    for key in every_key_of(MAX_ID) {
        assert!((1..=255).contains(&key.as_str().len()), "{key}");
        assert!(key.as_str().bytes().all(|byte| byte.is_ascii_graphic()), "{key}");
        assert_eq!(OperationKey::stored(key.to_string()), key);
    }
}
