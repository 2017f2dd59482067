//! Faults of webhooks.

use handover_outbox::ports::*;
use marketplace::ports::*;

use super::super::{Faulty, Unit};

impl<U: MarketView + ?Sized> WebhookQueriesWrapper for Faulty<U> {}

impl WebhookRepoWrapper for Unit {}
