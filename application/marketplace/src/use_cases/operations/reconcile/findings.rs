//! What is not as it should be.

use handover_events::{EventId, TenantId};
use marketplace_domain::OrderId;

use crate::ports::{EffectKind, EffectOfFact, LedgerFlaw};
use handover_outbox::ports::DeadLetter;

/// What kind of thing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// A row says that something happened, and no event announces it.
    MissingEvent,
    /// An event was given up before the broker confirmed it.
    NotConfirmed,
    /// An event was confirmed, and a consumer never recorded it.
    NotConsumed,
    /// A consumer recorded an event as applied, and what it did is not there.
    MissingEffect,
    /// A message died at a consumer, and there is no outbox row of its event.
    UnknownEvent,
    /// A fact of an order has the same effect more often than once.
    DoubledEffect,
    /// An effect of an order that does not exist, or of a fact that the order's row contradicts.
    EffectWithoutFact,
    /// Operations tell of an asset that is held, or was, and its hold is not there.
    MissingHold,
    /// Money came or went, and the ledger does not know of it.
    NotBooked,
    /// An operation of the ledger does not balance.
    Unbalanced,
    /// A balance is not what its entries say.
    Drifted,
}

impl FindingKind {
    /// Every kind.
    pub const ALL: [FindingKind; 11] = [
        FindingKind::MissingEvent,
        FindingKind::NotConfirmed,
        FindingKind::NotConsumed,
        FindingKind::MissingEffect,
        FindingKind::UnknownEvent,
        FindingKind::DoubledEffect,
        FindingKind::EffectWithoutFact,
        FindingKind::MissingHold,
        FindingKind::NotBooked,
        FindingKind::Unbalanced,
        FindingKind::Drifted,
    ];

    /// Its name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            FindingKind::MissingEvent => "missingEvent",
            FindingKind::NotConfirmed => "notConfirmed",
            FindingKind::NotConsumed => "notConsumed",
            FindingKind::MissingEffect => "missingEffect",
            FindingKind::UnknownEvent => "unknownEvent",
            FindingKind::DoubledEffect => "doubledEffect",
            FindingKind::EffectWithoutFact => "effectWithoutFact",
            FindingKind::MissingHold => "missingHold",
            FindingKind::NotBooked => "notBooked",
            FindingKind::Unbalanced => "unbalanced",
            FindingKind::Drifted => "drifted",
        }
    }
}

/// What was done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mended {
    /// The event is announced, and takes its way.
    Announced,
    /// The event is published once more.
    SentAgain,
    /// The consumer applies the event again.
    AppliedAgain,
    /// What it did is there: only the record was gone, and is written again.
    WrittenDown,
}

impl Mended {
    /// Everything that can be done.
    pub const ALL: &'static [Mended] =
        &[Mended::Announced, Mended::SentAgain, Mended::AppliedAgain, Mended::WrittenDown];

    /// Its name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Mended::Announced => "announced",
            Mended::SentAgain => "sentAgain",
            Mended::AppliedAgain => "appliedAgain",
            Mended::WrittenDown => "writtenDown",
        }
    }
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub kind: FindingKind,
    /// The tenant.
    pub tenant: TenantId,
    /// Of which order.
    pub order: Option<OrderId>,
    /// Of which event, where there is one.
    pub event_id: Option<EventId>,
    /// Of which type.
    pub event_type: Option<String>,
    /// At which consumer.
    pub consumer: Option<String>,
    /// Under which key of the ledger.
    pub key: Option<String>,
    /// In a few words.
    pub what: String,
    /// What was done about it; `None` where nothing was, or nothing could be.
    pub mended: Option<Mended>,
}

impl Finding {
    pub(super) fn without_order(kind: EffectKind, effect: EffectOfFact) -> Finding {
        Finding {
            kind: FindingKind::EffectWithoutFact,
            tenant: effect.tenant,
            order: Some(effect.order),
            event_id: Some(effect.event_id),
            event_type: None,
            consumer: None,
            what: format!("{} has {}, and the order does not exist", kind.table(), effect.fact),
            key: Some(effect.fact),
            mended: None,
        }
    }

    /// A dead letter whose event the outbox does not know: the database was restored, or the message is not ours.
    pub(super) fn of_letter(letter: DeadLetter, event_id: EventId) -> Finding {
        Finding {
            kind: FindingKind::UnknownEvent,
            tenant: letter.tenant,
            order: None,
            what: format!(
                "dead letter {} of {}: there is no outbox row of event {event_id}",
                letter.key, letter.queue
            ),
            event_id: Some(event_id),
            event_type: letter.event_type,
            consumer: None,
            key: None,
            mended: None,
        }
    }

    pub(super) fn of_ledger(flaw: &LedgerFlaw) -> Finding {
        let (kind, tenant, key, what) = match flaw {
            LedgerFlaw::Unbalanced { tenant, key, sum } => {
                let what = format!("the entries of {key} sum to {sum} and not to zero, or have no operation");
                (FindingKind::Unbalanced, *tenant, Some(key.to_string()), what)
            }
            LedgerFlaw::Drifted { tenant, user, account, balance, entries } => {
                let asset = account.asset();
                let (balance, entries) = (asset.show(*balance), asset.show(*entries));
                let what =
                    format!("user {user} has {balance} in {account}, and its entries sum to {entries}");
                (FindingKind::Drifted, *tenant, None, what)
            }
        };
        Finding {
            kind,
            tenant,
            order: None,
            event_id: None,
            event_type: None,
            consumer: None,
            key,
            what,
            mended: None,
        }
    }
}
