//! The claim of a request, and what becomes of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{AnswerWriter, Answered, Effect};
use crate::mutants::{Mutant, planted};
use crate::ports::{IdempotencyError, IdempotencyStore, KeptRequest, RequestState, StoredAnswer, Work};
use crate::use_cases::UseCaseError;
use handover_outbox::ports::{Changed, StoreError};

/// The claim of one attempt at a request. Clones are the same claim.
#[derive(Clone)]
pub struct Ticket {
    pub(super) request: Arc<KeptRequest>,
    /// The token of its answer: one of its own, so that whoever read the claim before the answer came cannot take over
    /// what is answered.
    pub(super) answer_token: Arc<str>,
    /// Where the key was claimed.
    pub(super) keys: Arc<dyn IdempotencyStore>,
    pub(super) keeps: Keeps,
}

/// When the answer of a request is kept.
#[derive(Clone)]
pub(super) enum Keeps {
    /// In the unit of work of what it tells of.
    Within(Within),
    /// After what it tells of, wherever keys of that kind are.
    Afterwards,
}

/// How a unit of work keeps its answer.
#[derive(Clone)]
pub(super) struct Within {
    writer: AnswerWriter,
    /// Whether one has written it; it stands if that one was committed.
    written: Arc<AtomicBool>,
}

impl Within {
    pub(super) fn new(writer: AnswerWriter) -> Within {
        Within { writer, written: Arc::default() }
    }

    /// The data of the answer.
    pub(super) fn write(&self, answered: Answered<'_>) -> Result<String, StoreError> {
        (self.writer)(answered).map_err(|error| StoreError::Backend(error.into()))
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("request", &self.request).finish_non_exhaustive()
    }
}

impl PartialEq for Ticket {
    fn eq(&self, other: &Ticket) -> bool {
        self.request == other.request
    }
}

impl Eq for Ticket {}

impl Ticket {
    /// The client's key.
    pub fn key(&self) -> &str {
        &self.request.scope.key
    }

    /// How its answer is kept in a unit of work; refused where it is kept afterwards, whatever the command would do.
    pub(super) fn within(&self) -> Result<Within, StoreError> {
        match &self.keeps {
            Keeps::Within(within) => Ok(within.clone()),
            Keeps::Afterwards => {
                let route = &self.request.scope.route;
                let why =
                    format!("{route} keeps its answer in its transaction, and its key was claimed elsewhere");
                Err(StoreError::Backend(why.into()))
            }
        }
    }

    /// Keeps the answer, in the unit of work of what it tells.
    pub(super) async fn conclude(
        &self,
        within: &Within,
        unit: &mut Work,
        effect: Effect,
        answered: Answered<'_>,
    ) -> Result<(), UseCaseError> {
        let data = within.write(answered)?;
        let after = self.answered(StoredAnswer { status: effect.status(), data });
        let mut token = self.request.token.clone();
        if planted(Mutant::AnswerWithoutItsToken)
            && let Some(other) = unit.request_of(&after.scope).await?
        {
            token = other.token;
        }
        if unit.advance_request(&token, &after).await? == Changed::None {
            // Unless an earlier attempt of this very unit was committed after all.
            let kept = unit.request_of(&after.scope).await?;
            if kept.is_none_or(|kept| kept.token != after.token) {
                return Err(UseCaseError::InProgress);
            }
        }
        within.written.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn answered(&self, answer: StoredAnswer) -> KeptRequest {
        KeptRequest {
            state: RequestState::Success(answer),
            token: self.answer_token.to_string(),
            ..KeptRequest::clone(&self.request)
        }
    }

    /// The request was done and is answered with this. What the command's own unit of work kept stands; else it is kept
    /// now, unless another attempt has overtaken this one.
    pub async fn done(&self, answer: StoredAnswer) -> Result<(), IdempotencyError> {
        if let Keeps::Within(within) = &self.keeps
            && within.written.load(Ordering::Relaxed)
        {
            return Ok(());
        }
        self.keys.conclude(&self.request.token, &self.answered(answer)).await.map(|_| ())
    }

    /// The request was refused and changed nothing: its key is free again.
    pub async fn refused(&self) -> Result<(), IdempotencyError> {
        self.keys.release(&self.request.scope, &self.request.token).await.map(|_| ())
    }
}
