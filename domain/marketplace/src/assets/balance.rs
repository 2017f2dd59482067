//! Wallet and points balances of a user, and the ledger entries of each change.
//!
//! **Invariant:** the entries of each change sum to zero, and therefore the balances of all accounts do too.
//!
//! **Invariant:** `available`, `frozen` and `debt` are never negative, and `available` is zero while there is a debt.
//! Their values depend only on the sum of all changes, not on the sequence of the changes.

use chrono::{DateTime, Utc};

use super::{Asset, AssetRefusal};
use crate::UserId;
use handover_events::named;
use handover_events::{MAX_ID, TenantId};

/// Kind of balance. A user has at most one balance of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purse {
    /// Money held by the marketplace for the user, in minor units.
    Wallet,
    Points,
}

named!(Purse { Wallet => "wallet", Points => "points" });

impl Purse {
    pub const fn asset(self) -> Asset {
        match self {
            Purse::Wallet => Asset::Wallet,
            Purse::Points => Asset::Points,
        }
    }
}

/// A ledger account. Wallet, platform and gateway accounts are in minor units of money, the others in points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// Available wallet balance of a user.
    Wallet,
    /// Wallet amount held for orders.
    WalletHold,
    /// Available points of a user.
    Points,
    /// Points held for orders.
    PointsHold,
    /// Points owed by a user: the only user account with a negative balance.
    PointsDebt,
    /// The marketplace: payments received minus refunds.
    Platform,
    /// Captured money that pays nothing and is not refunded yet.
    Suspense,
    /// Counterpart account of the payment gateway: the negated net amount received through it.
    Gateway,
    /// Counterpart account of all issued points: the negated number of points in circulation.
    PointsIssued,
}

named!(Account {
    Wallet => "wallet", WalletHold => "wallet_hold", Points => "points", PointsHold => "points_hold",
    PointsDebt => "points_debt", Platform => "platform", Suspense => "suspense",
    Gateway => "gateway", PointsIssued => "points_issued"
});

impl Account {
    /// The unit of the account: [`Asset::Wallet`] for money, [`Asset::Points`] for points.
    pub const fn asset(self) -> Asset {
        match self {
            Account::Wallet
            | Account::WalletHold
            | Account::Platform
            | Account::Suspense
            | Account::Gateway => Asset::Wallet,
            Account::Points | Account::PointsHold | Account::PointsDebt | Account::PointsIssued => {
                Asset::Points
            }
        }
    }
}

/// A ledger entry: a change of one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub account: Account,
    /// Owner of the account; `None` for accounts of the marketplace.
    pub user: Option<UserId>,
    /// Change in minor units or points; may be negative.
    pub amount: i64,
    /// Balance of the account after the entry. `None` for accounts of the marketplace: tracking their balance would
    /// make all transactions wait for one row.
    pub balance_after: Option<i64>,
}

impl Entry {
    /// Creates an entry of a marketplace account.
    pub const fn own(account: Account, amount: i64) -> Entry {
        Entry { account, user: None, amount, balance_after: None }
    }
}

/// The balance of a user in one purse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    pub tenant: TenantId,
    pub user: UserId,
    pub purse: Purse,
    pub available: i64,
    /// Amount held for orders.
    pub frozen: i64,
    /// Owed points: earned points that were revoked after they had been spent.
    pub debt: i64,
    /// Version of the row, incremented by each change; 0 before the first one.
    pub version: i64,
    pub update_time: DateTime<Utc>,
}

impl Balance {
    pub const fn empty(tenant: TenantId, user: UserId, purse: Purse, now: DateTime<Utc>) -> Balance {
        Balance { tenant, user, purse, available: 0, frozen: 0, debt: 0, version: 0, update_time: now }
    }

    /// Credits an amount from a marketplace account. A debt is repaid first.
    pub fn receive(
        &self,
        amount: i64,
        from: Account,
        now: DateTime<Utc>,
    ) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
        self.bounded(amount)?;
        let (after, [repaid, rest]) = self.changed(now).add(amount)?;
        Ok(with_entries(after, [Entry::own(from, -amount), repaid, rest]))
    }

    /// Holds an amount: moves it from `available` to `frozen`.
    pub fn freeze(&self, amount: i64, now: DateTime<Utc>) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
        self.bounded(amount)?;
        if amount > self.available {
            return Err(self.insufficient(amount, self.available));
        }
        let available = self.available - amount;
        let frozen = self.frozen + amount;
        let after = Balance { available, frozen, ..self.changed(now) };
        let entries = [after.spendable(-amount), after.held(amount)];
        Ok(with_entries(after, entries))
    }

    /// Commits a hold: moves the amount from `frozen` to the marketplace.
    pub fn commit(&self, amount: i64, now: DateTime<Utc>) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
        let after = self.thaw(amount, now)?;
        let entries = [after.held(-amount), Entry::own(self.sink(), amount)];
        Ok(with_entries(after, entries))
    }

    /// Releases a hold: moves the amount from `frozen` to `available`. A debt is repaid first.
    pub fn release(&self, amount: i64, now: DateTime<Utc>) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
        let (after, [repaid, rest]) = self.thaw(amount, now)?.add(amount)?;
        let thawed = after.held(-amount);
        Ok(with_entries(after, [thawed, repaid, rest]))
    }

    /// Reverts a committed hold: credits the amount back from the marketplace. A debt is repaid first.
    pub fn revert(&self, amount: i64, now: DateTime<Utc>) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
        self.receive(amount, self.sink(), now)
    }

    /// Revokes an earned amount. Points that are already spent become a debt. A wallet cannot have a debt: an amount
    /// above its available balance is rejected.
    pub fn revoke(&self, amount: i64, now: DateTime<Utc>) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
        self.bounded(amount)?;
        let taken = amount.min(self.available);
        let owed = amount - taken;
        if owed > 0 && self.purse == Purse::Wallet {
            return Err(self.insufficient(amount, self.available));
        }
        self.bounded(self.debt + owed)?;
        let available = self.available - taken;
        let debt = self.debt + owed;
        let after = Balance { available, debt, ..self.changed(now) };
        let entries = [after.spendable(-taken), after.owed(-owed), Entry::own(self.sink(), amount)];
        Ok(with_entries(after, entries))
    }

    /// Repays the debt and adds the rest to `available`. The sum of `available` and `frozen` is at most `MAX_ID`, so
    /// that every hold can be released.
    fn add(self, amount: i64) -> Result<(Balance, [Entry; 2]), AssetRefusal> {
        let repaid = amount.min(self.debt);
        let rest = amount - repaid;
        let after = Balance { available: self.available + rest, debt: self.debt - repaid, ..self };
        after.bounded(after.available + after.frozen)?;
        let entries = [after.owed(repaid), after.spendable(rest)];
        Ok((after, entries))
    }

    /// Removes an amount from `frozen`.
    fn thaw(&self, amount: i64, now: DateTime<Utc>) -> Result<Balance, AssetRefusal> {
        self.bounded(amount)?;
        if amount > self.frozen {
            return Err(self.insufficient(amount, self.frozen));
        }
        Ok(Balance { frozen: self.frozen - amount, ..self.changed(now) })
    }

    fn bounded(&self, amount: i64) -> Result<(), AssetRefusal> {
        let legal = (0..=MAX_ID).contains(&amount);
        if legal { Ok(()) } else { Err(AssetRefusal::TooMuch { asset: self.purse.asset() }) }
    }

    const fn insufficient(&self, asked: i64, available: i64) -> AssetRefusal {
        AssetRefusal::Insufficient { asset: self.purse.asset(), asked, available }
    }

    fn changed(&self, now: DateTime<Utc>) -> Balance {
        Balance { version: self.version + 1, update_time: now, ..self.clone() }
    }

    /// The account of the marketplace that receives committed amounts and returns reverted amounts.
    const fn sink(&self) -> Account {
        match self.purse {
            Purse::Wallet => Account::Platform,
            Purse::Points => Account::PointsIssued,
        }
    }

    const fn spendable(&self, amount: i64) -> Entry {
        let account = match self.purse {
            Purse::Wallet => Account::Wallet,
            Purse::Points => Account::Points,
        };
        Entry { account, user: Some(self.user), amount, balance_after: Some(self.available) }
    }

    const fn held(&self, amount: i64) -> Entry {
        let account = match self.purse {
            Purse::Wallet => Account::WalletHold,
            Purse::Points => Account::PointsHold,
        };
        Entry { account, user: Some(self.user), amount, balance_after: Some(self.frozen) }
    }

    const fn owed(&self, amount: i64) -> Entry {
        Entry { account: Account::PointsDebt, user: Some(self.user), amount, balance_after: Some(-self.debt) }
    }
}

/// A changed balance with its entries; entries with amount zero are omitted.
fn with_entries<const N: usize>(after: Balance, entries: [Entry; N]) -> (Balance, Vec<Entry>) {
    (after, entries.into_iter().filter(|entry| entry.amount != 0).collect())
}
