//! What a user has in wallet or points, and the entries by which it changes.
//!
//! **Invariant:** the entries of every change sum to zero, and so do, at every moment, all accounts together.
//!
//! **Invariant:** `available`, `frozen` and `debt` are never negative; where there is a debt, nothing is available. Both
//! follow from the sum of what came and went alone, so the order in which it did changes nothing.

use chrono::{DateTime, Utc};

use super::{Asset, AssetRefusal};
use crate::UserId;
use handover_events::named;
use handover_events::{MAX_ID, TenantId};

/// What a user can have a balance of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purse {
    /// Money on the marketplace, in minor units.
    Wallet,
    /// Points.
    Points,
}

named!(Purse { Wallet => "wallet", Points => "points" });

impl Purse {
    /// The asset in it.
    pub const fn asset(self) -> Asset {
        match self {
            Purse::Wallet => Asset::Wallet,
            Purse::Points => Asset::Points,
        }
    }
}

/// An account of the ledger. Wallet, platform and gateway are in minor units of money, the others in points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// What a user can spend.
    Wallet,
    /// What is held of it for orders.
    WalletHold,
    /// The points that a user can spend.
    Points,
    /// What is held of them for orders.
    PointsHold,
    /// What a user owes in points: the only user's account that is negative.
    PointsDebt,
    /// The marketplace: what was paid to it and not paid back.
    Platform,
    /// The world behind the payment gateway: minus what came from it.
    Gateway,
    /// The issuer of points: minus all points there are.
    PointsIssued,
}

named!(Account {
    Wallet => "wallet", WalletHold => "wallet_hold", Points => "points", PointsHold => "points_hold",
    PointsDebt => "points_debt", Platform => "platform", Gateway => "gateway", PointsIssued => "points_issued"
});

impl Account {
    /// What it is kept in: money or points.
    pub const fn asset(self) -> Asset {
        match self {
            Account::Wallet | Account::WalletHold | Account::Platform | Account::Gateway => Asset::Wallet,
            Account::Points | Account::PointsHold | Account::PointsDebt | Account::PointsIssued => {
                Asset::Points
            }
        }
    }
}

/// One entry of the ledger: so much more, or less, in one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Which account.
    pub account: Account,
    /// Whose; the marketplace's own have nobody.
    pub user: Option<UserId>,
    /// So much: minor units or points.
    pub amount: i64,
    /// What the account holds then; not kept for the marketplace's own, on which all would wait.
    pub balance_after: Option<i64>,
}

impl Entry {
    /// An entry of an account of the marketplace itself.
    pub const fn own(account: Account, amount: i64) -> Entry {
        Entry { account, user: None, amount, balance_after: None }
    }
}

/// What a user has in one purse, and the version of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    /// The marketplace.
    pub tenant: TenantId,
    /// Whose.
    pub user: UserId,
    /// Of what.
    pub purse: Purse,
    /// What can be spent.
    pub available: i64,
    /// What is held for orders.
    pub frozen: i64,
    /// What is owed: points that were taken back after they had been spent.
    pub debt: i64,
    /// Counts the changes of the row; 0 before the first.
    pub version: i64,
    /// When it last changed.
    pub update_time: DateTime<Utc>,
}

impl Balance {
    /// Nothing.
    pub const fn empty(tenant: TenantId, user: UserId, purse: Purse, now: DateTime<Utc>) -> Balance {
        Balance { tenant, user, purse, available: 0, frozen: 0, debt: 0, version: 0, update_time: now }
    }

    /// More, from an account of the marketplace's own. What is owed is paid first.
    pub fn receive(
        &self,
        amount: i64,
        from: Account,
        now: DateTime<Utc>,
    ) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
        self.bounded(amount)?;
        let (after, [repaid, rest]) = self.changed(now).add(amount)?;
        Ok(moved(after, [Entry::own(from, -amount), repaid, rest]))
    }

    /// Held: from what is available.
    pub fn freeze(&self, amount: i64, now: DateTime<Utc>) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
        self.bounded(amount)?;
        if amount > self.available {
            return Err(self.insufficient(amount, self.available));
        }
        let (available, frozen) = (self.available - amount, self.frozen + amount);
        let after = Balance { available, frozen, ..self.changed(now) };
        let entries = [after.spendable(-amount), after.held(amount)];
        Ok(moved(after, entries))
    }

    /// What was held goes to the marketplace.
    pub fn commit(&self, amount: i64, now: DateTime<Utc>) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
        let after = self.thaw(amount, now)?;
        let entries = [after.held(-amount), Entry::own(self.sink(), amount)];
        Ok(moved(after, entries))
    }

    /// What was held can be spent again; what is owed is paid first.
    pub fn release(&self, amount: i64, now: DateTime<Utc>) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
        let (after, [repaid, rest]) = self.thaw(amount, now)?.add(amount)?;
        let thawed = after.held(-amount);
        Ok(moved(after, [thawed, repaid, rest]))
    }

    /// What was committed is given back.
    pub fn revert(&self, amount: i64, now: DateTime<Utc>) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
        self.receive(amount, self.sink(), now)
    }

    /// What was earned is taken back. Points that are spent already are owed; a wallet owes nothing, so there it is
    /// refused.
    pub fn take_back(&self, amount: i64, now: DateTime<Utc>) -> Result<(Balance, Vec<Entry>), AssetRefusal> {
        self.bounded(amount)?;
        let taken = amount.min(self.available);
        let owed = amount - taken;
        if owed > 0 && self.purse == Purse::Wallet {
            return Err(self.insufficient(amount, self.available));
        }
        self.bounded(self.debt + owed)?;
        let (available, debt) = (self.available - taken, self.debt + owed);
        let after = Balance { available, debt, ..self.changed(now) };
        let entries = [after.spendable(-taken), after.owed(-owed), Entry::own(self.sink(), amount)];
        Ok(moved(after, entries))
    }

    /// What is owed is paid first; the rest can be spent. Whatever is held has room to come back.
    fn add(self, amount: i64) -> Result<(Balance, [Entry; 2]), AssetRefusal> {
        let repaid = amount.min(self.debt);
        let rest = amount - repaid;
        let after = Balance { available: self.available + rest, debt: self.debt - repaid, ..self };
        after.bounded(after.available + after.frozen)?;
        let entries = [after.owed(repaid), after.spendable(rest)];
        Ok((after, entries))
    }

    /// So much less is held.
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

    /// Where committed amounts go, and come back from.
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

/// A change and its entries; one over nothing is none.
fn moved<const N: usize>(after: Balance, entries: [Entry; N]) -> (Balance, Vec<Entry>) {
    (after, entries.into_iter().filter(|entry| entry.amount != 0).collect())
}
