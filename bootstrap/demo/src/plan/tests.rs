use std::collections::{BTreeMap, BTreeSet};

use super::*;

#[test]
fn the_same_seed_plans_the_same_day() {
    assert_eq!(Plan::draw(3, 200), Plan::draw(3, 200));
    assert_ne!(Plan::draw(3, 200), Plan::draw(4, 200));
}

#[test]
fn the_shares_are_fixed_and_the_smallest_day_has_almost_every_kind() {
    for seed in 0..50 {
        let small = Plan::draw(seed, 10).unwrap();
        assert_eq!(small.deals.len(), 9, "the tenth is the lamp's");
        let kinds: BTreeSet<Fate> = small.deals.iter().map(|deal| deal.fate).collect();
        let left_out = [Fate::PaymentFailed, Fate::RefundedAtSecondTry];
        assert_eq!(kinds.len(), 8, "{kinds:?}");
        assert!(left_out.iter().all(|fate| !kinds.contains(fate)), "{kinds:?}");
        // What is left for an operator to pay back in a market that is kept.
        let stays_paid = |deal: &&Deal| matches!(deal.fate, Fate::Paid | Fate::PaidAtSecondTry);
        let in_money = small.deals.iter().filter(stays_paid).filter(|deal| deal.asked == Asked::NOTHING);
        assert_eq!(in_money.count(), 2, "seed {seed}");
    }
    let mut counts = BTreeMap::new();
    for deal in Plan::draw(1, 301).unwrap().deals {
        *counts.entry(deal.fate).or_insert(0) += 1;
    }
    let expected = [
        (Fate::Completed, 90),
        (Fate::Shipped, 20),
        (Fate::Paid, 50),
        (Fate::PaidAtSecondTry, 20),
        (Fate::Cancelled, 30),
        (Fate::LeftAlone, 30),
        (Fate::PaymentFailed, 10),
        (Fate::PaidTooLate, 10),
        (Fate::Refunded, 20),
        (Fate::RefundedAtSecondTry, 20),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn nobody_buys_from_themselves_and_the_crowd_and_the_poor_are_nobody_else() {
    for seed in 0..20 {
        let plan = Plan::draw(seed, 500).unwrap();
        assert!(plan.deals.iter().all(|deal| deal.seller != deal.buyer));
        assert!(plan.deals.iter().all(|deal| deal.seller.get() <= USERS));
        let (poor, users): (Vec<&Deal>, Vec<&Deal>) =
            plan.deals.iter().partition(|deal| deal.asked.cover == Cover::TooLittle);
        assert!(users.iter().all(|deal| deal.buyer.get() <= USERS));
        assert!(poor.iter().all(|deal| plan.poor.contains(&deal.buyer)), "and they buy nothing else");
        assert_eq!(plan.crowd.len(), 64);
        assert!(plan.crowd.iter().all(|buyer| buyer.get() > USERS && *buyer != plan.lamp.seller));
        assert!(plan.crowd.iter().all(|buyer| !plan.poor.contains(buyer)));
    }
}

#[test]
fn the_spoiled_payment_is_among_the_first_that_are_made() {
    for seed in 0..200 {
        for orders in [10, 11, 50, 200] {
            let plan = Plan::draw(seed, orders).unwrap();
            let paid = plan.deals.iter().filter(|deal| deal.is_paid()).count();
            assert!((1..=paid.div_ceil(4)).contains(&usize::try_from(plan.spoiled).unwrap()));
        }
    }
}

#[test]
fn about_a_third_of_the_orders_name_assets_and_what_they_name_is_given() {
    for seed in 0..20 {
        let plan = Plan::draw(seed, 301).unwrap();
        let with_assets = plan.deals.iter().filter(|deal| deal.asked != Asked::NOTHING).count();
        assert_eq!(with_assets, 110);
        let (mut wallets, mut points) = (BTreeMap::new(), BTreeMap::new());
        for deal in plan.deals.iter().filter(|deal| deal.asked.cover != Cover::TooLittle) {
            *wallets.entry(deal.buyer).or_insert(0) += deal.asked.wallet.minor();
            *points.entry(deal.buyer).or_insert(0) += deal.asked.points.get();
            assert!(deal.asked.wallet.minor() + deal.asked.points.get() <= deal.price.minor());
        }
        let given = |user: &UserId| plan.gifts.deposits.get(user).map_or(0, |amount| amount.minor());
        assert!(wallets.iter().all(|(user, sum)| given(user) == *sum));
        let given = |user: &UserId| plan.gifts.points.get(user).map_or(0, |amount| amount.get());
        assert!(points.iter().all(|(user, sum)| given(user) == *sum));
        assert!(plan.poor.iter().all(|user| plan.gifts.deposits[user].minor() < CHEAPEST_MINOR));
    }
}

#[test]
fn each_coupon_is_named_by_its_owner_for_a_price_that_it_is_for_and_some_by_two_orders() {
    for seed in 0..20 {
        let plan = Plan::draw(seed, 301).unwrap();
        let mut named: BTreeMap<usize, Vec<&Deal>> = BTreeMap::new();
        for deal in &plan.deals {
            if let Some(coupon) = deal.asked.coupon {
                named.entry(coupon).or_default().push(deal);
            }
        }
        assert_eq!(named.len(), plan.gifts.coupons.len());
        for (coupon, deals) in &named {
            let voucher = plan.gifts.coupons[*coupon];
            assert!(deals.iter().all(|deal| deal.buyer == voucher.user));
            assert!(deals.iter().all(|deal| deal.price >= voucher.min_spend));
        }
        let of_two: Vec<_> = named.values().filter(|deals| deals.len() == 2).collect();
        assert_eq!(of_two.len(), 10);
        assert!(of_two.iter().all(|deals| deals.iter().all(|deal| deal.asked.cover == Cover::Perhaps)));
    }
}

/// What is due of it is what the sandbox fails first; `bootstrap/service/tests/cli/demo.rs` plays these days to show that by day it is not asked.
#[test]
fn on_some_days_either_order_for_a_shared_coupon_leaves_an_amount_that_ends_in_13() {
    for seed in [3_579, 37_923] {
        let plan = Plan::draw(seed, 15).unwrap();
        let shared = plan.deals.iter().filter(|deal| deal.asked.cover == Cover::Perhaps);
        let due = |deal: &Deal| {
            let voucher = plan.gifts.coupons[deal.asked.coupon.unwrap()];
            deal.price.minor() - voucher.discount.minor()
        };
        let cents: Vec<i64> = shared.map(|deal| due(deal) % 100).collect();
        assert_eq!(cents, [13, 13], "seed {seed}");
    }
}
