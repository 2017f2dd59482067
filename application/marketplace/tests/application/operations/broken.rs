//! A consumer that gives everything up until it is mended, and the dead letters that this leaves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;
use handover_outbox::operations::*;
use handover_outbox::ports::*;

use super::operators::*;
use crate::consumers::scripted::{Act, NAME, QUEUE, Scripted};
use crate::support::{Process, World, first_record, millis, pass};

/// A deployment whose consumer gives everything up until it is mended.
pub(crate) struct Broken {
    pub(crate) world: World,
    pub(crate) process: Process,
    pub(crate) handler: Arc<Scripted>,
    mended: Arc<AtomicBool>,
}

/// With these events of their orders dead.
pub(crate) async fn broken(names: &[(&str, i64)]) -> Broken {
    let broken = broken_undrained(names).await;
    broken.process.start_drainer(&[broken.handler.subscriber()]);
    pass(millis(700)).await;
    for (id, _) in names {
        assert_eq!(broken.world.letter(QUEUE, id).await.status, DeadLetterStatus::Open);
        assert_eq!(broken.world.log_status(NAME, id).await, Some(ConsumeStatus::Dead));
    }
    broken
}

/// The same, with their copies still in the dead-letter queue.
pub(crate) async fn broken_undrained(names: &[(&str, i64)]) -> Broken {
    let world = World::new().await;
    let mended = Arc::new(AtomicBool::new(false));
    let is_mended = Arc::clone(&mended);
    let script =
        move |_: &[String], _| if is_mended.load(Ordering::SeqCst) { Act::Apply } else { Act::GiveUp };
    let handler = Scripted::new(&world, script);
    let process = with_scripted(world.process(), &handler);
    process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    let mut seqs = BTreeMap::new();
    for (id, order) in names {
        let seq = seqs.entry(order).and_modify(|seq| *seq += 1).or_insert(1);
        world.arrived(&process, id, *order, *seq).await;
        pass(millis(50)).await;
    }
    Broken { world, process, handler, mended }
}

/// A process whose application has the scripted consumer at its queue.
pub(crate) fn with_scripted(process: Process, handler: &Arc<Scripted>) -> Process {
    Process { app: process.app.clone().with_consumer(handler.subscriber(), &[]), ..process }
}

impl Broken {
    pub(crate) fn mend(&self) {
        self.mended.store(true, Ordering::SeqCst);
    }

    pub(crate) async fn replay(&self, letters: Letters) -> Result<Replayed, OperationError> {
        let command = ReplayLetters { letters, dry_run: false, reason: Some(reason()) };
        replay_dead_letters(&self.process.app.outbox, &acting(&operator()), command).await
    }
}

pub(crate) fn whys(replayed: &Replayed) -> Vec<(&str, &str)> {
    whys_of(&replayed.refused)
}

pub(crate) fn whys_of(refused: &[Refused]) -> Vec<(&str, &str)> {
    refused.iter().map(|refused| (refused.key.as_str(), refused.why.as_str())).collect()
}

/// Parks letters as the drainer would.
pub(crate) async fn park(world: &World, letters: &[DeadLetter]) {
    let mut unit = world.store.begin().await.unwrap();
    unit.outbox().park(letters).await.unwrap();
    unit.commit().await.unwrap();
}

/// What follows the record that the scripted consumer has of this event.
pub(crate) async fn next_record(world: &World, id: &str, status: ConsumeStatus) -> Consumption {
    let (row, record) = (world.row(id).await, world.log(NAME, id).await.unwrap());
    Consumption {
        expected: Expected::At(record.status, record.attempts),
        attempts: u32::from(status == ConsumeStatus::Dead),
        error_message: Some("out of paper".into()),
        ..first_record(row, NAME, status, world.now())
    }
}
