//! A product is reserved by at most one order at a time.

use chrono::{DateTime, Utc};
use marketplace_domain::{Product, ProductAction, ProductRefusal, ProductStatus, UserId};
use proptest::prelude::*;

use crate::common::{SELLER, at, id, ids, one_of, product};

/// Spec §2 "Product": allowed transitions. Any other combination is rejected.
const LEGAL: [(&str, ProductAction, &str); 5] = [
    ("on_sale", ProductAction::Occupy, "sold"),
    ("sold", ProductAction::Release, "on_sale"),
    ("sold", ProductAction::Withdraw, "off_shelf"),
    ("on_sale", ProductAction::OffShelf, "off_shelf"),
    ("off_shelf", ProductAction::OnShelf, "on_sale"),
];

fn now() -> DateTime<Utc> {
    at("2026-02-04T11:00:00Z")
}

#[test]
fn every_status_and_action_matches_the_table() {
    for status in ProductStatus::ALL {
        for action in ProductAction::ALL {
            let row = LEGAL.iter().find(|row| row.0 == status.as_str() && row.1 == action);
            let expected = match row {
                Some(row) => Ok(row.2.parse().unwrap()),
                None => Err(ProductRefusal::WrongStatus { status: *status }),
            };
            let decided = product(*status).apply(action, now()).map(|after| after.status);
            assert_eq!(decided, expected, "{action:?} on a product that is {status}");
        }
    }
}

#[test]
fn transition_changes_only_status_version_and_time() {
    for (from, action, to) in LEGAL {
        let before = product(from.parse().unwrap());
        let expected = Product {
            status: to.parse().unwrap(),
            version: before.version + 1,
            update_time: now(),
            ..before.clone()
        };
        assert_eq!(before.apply(action, now()), Ok(expected), "{action:?}");
    }
}

#[test]
fn price_is_between_1_cent_and_9999999_99() {
    assert_eq!(Product::PRICE_MINOR, 1..=999_999_999);
}

proptest! {
    #[test]
    fn product_is_reserved_again_only_after_its_release(
        tried in prop::collection::vec(one_of(&ProductAction::ALL), 0..100),
    ) {
        let mut product = product(ProductStatus::OnSale);
        let mut owners = 0;
        for action in tried {
            let Ok(after) = product.apply(action, now()) else { continue };
            match action {
                ProductAction::Occupy => owners += 1,
                ProductAction::Release | ProductAction::Withdraw => owners -= 1,
                ProductAction::OffShelf | ProductAction::OnShelf => prop_assert_eq!(owners, 0),
            }
            prop_assert!(owners == 0 || owners == 1, "{} orders reserve the product", owners);
            prop_assert_eq!(after.status == ProductStatus::Sold, owners == 1);
            prop_assert_eq!(after.version, product.version + 1);
            product = after;
        }
    }

    #[test]
    fn opposite_actions_restore_the_product(status in one_of(ProductStatus::ALL)) {
        let before = product(status);
        for (action, inverse) in [
            (ProductAction::Occupy, ProductAction::Release),
            (ProductAction::Release, ProductAction::Occupy),
            (ProductAction::OffShelf, ProductAction::OnShelf),
            (ProductAction::OnShelf, ProductAction::OffShelf),
        ] {
            let Ok(after) = before.apply(action, now()) else { continue };
            prop_assert_eq!(after.apply(action, now()), Err(ProductRefusal::WrongStatus { status: after.status }));
            let restored = after.apply(inverse, now()).unwrap();
            prop_assert_eq!(restored.version, before.version + 2);
            let as_before = Product { version: before.version, update_time: before.update_time, ..restored };
            prop_assert_eq!(&as_before, &before);
        }
    }

    #[test]
    fn apply_as_rejects_every_user_except_the_seller(
        status in one_of(ProductStatus::ALL), action in one_of(&ProductAction::ALL), actor in ids::<UserId>(),
    ) {
        let product = product(status);
        prop_assert_eq!(product.apply_as(action, id(SELLER), now()), product.apply(action, now()));
        if actor.get() != SELLER {
            prop_assert_eq!(product.apply_as(action, actor, now()), Err(ProductRefusal::NotTheSeller));
        }
    }
}
