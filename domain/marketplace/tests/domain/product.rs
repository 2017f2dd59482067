//! A product is taken by at most one order at a time.

use chrono::{DateTime, Utc};
use marketplace_domain::{Product, ProductAction, ProductRefusal, ProductStatus, UserId};
use proptest::prelude::*;

use crate::common::{SELLER, at, id, ids, one_of, product};

/// Spec §2 "Product": what is not listed is refused.
const LEGAL: [(&str, ProductAction, &str); 4] = [
    ("on_sale", ProductAction::Occupy, "sold"),
    ("sold", ProductAction::Release, "on_sale"),
    ("on_sale", ProductAction::OffShelf, "off_shelf"),
    ("off_shelf", ProductAction::OnShelf, "on_sale"),
];

fn now() -> DateTime<Utc> {
    at("2026-02-04T11:00:00Z")
}

#[test]
fn every_status_and_action_is_decided_as_the_table_says() {
    for status in ProductStatus::ALL {
        for action in ProductAction::ALL {
            let row = LEGAL.iter().find(|row| row.0 == status.as_str() && row.1 == action);
            let expected = match row {
                Some(row) => Ok(row.2.parse().unwrap()),
                None => Err(ProductRefusal::WrongStatus { status: *status }),
            };
            let decided = product(*status).apply(action, now()).map(|after| after.status);
            assert_eq!(decided, expected, "{action:?} a product that is {status}");
        }
    }
}

#[test]
fn a_step_changes_status_version_and_time_and_nothing_else() {
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
fn prices_are_from_1_cent_to_9999999_99() {
    assert_eq!(Product::PRICE_MINOR, 1..=999_999_999);
}

proptest! {
    #[test]
    fn nobody_takes_a_product_again_before_it_was_released(
        tried in prop::collection::vec(one_of(&ProductAction::ALL), 0..100),
    ) {
        let mut product = product(ProductStatus::OnSale);
        let mut owners = 0;
        for action in tried {
            let Ok(after) = product.apply(action, now()) else { continue };
            match action {
                ProductAction::Occupy => owners += 1,
                ProductAction::Release => owners -= 1,
                ProductAction::OffShelf | ProductAction::OnShelf => prop_assert_eq!(owners, 0),
            }
            prop_assert!(owners == 0 || owners == 1, "{} orders have it", owners);
            prop_assert_eq!(after.status == ProductStatus::Sold, owners == 1);
            prop_assert_eq!(after.version, product.version + 1);
            product = after;
        }
    }

    #[test]
    fn taking_and_releasing_undo_each_other(status in one_of(ProductStatus::ALL)) {
        let before = product(status);
        for (there, back) in [
            (ProductAction::Occupy, ProductAction::Release),
            (ProductAction::Release, ProductAction::Occupy),
            (ProductAction::OffShelf, ProductAction::OnShelf),
            (ProductAction::OnShelf, ProductAction::OffShelf),
        ] {
            let Ok(after) = before.apply(there, now()) else { continue };
            prop_assert_eq!(after.apply(there, now()), Err(ProductRefusal::WrongStatus { status: after.status }));
            let again = after.apply(back, now()).unwrap();
            prop_assert_eq!(again.version, before.version + 2);
            let as_before = Product { version: before.version, update_time: before.update_time, ..again };
            prop_assert_eq!(&as_before, &before);
        }
    }

    #[test]
    fn only_the_seller_moves_a_product_on_and_off_the_shelf(
        status in one_of(ProductStatus::ALL), action in one_of(&ProductAction::ALL), who in ids::<UserId>(),
    ) {
        let product = product(status);
        prop_assert_eq!(product.apply_as(action, id(SELLER), now()), product.apply(action, now()));
        if who.get() != SELLER {
            prop_assert_eq!(product.apply_as(action, who, now()), Err(ProductRefusal::NotTheSeller));
        }
    }
}
