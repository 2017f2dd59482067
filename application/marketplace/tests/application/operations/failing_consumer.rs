//! A consumer whose handler returns a permanent error until the test repairs it, and the resulting dead letters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::App;

use super::operators::*;
use crate::consumers::scripted::{Act, NAME, QUEUE, Scripted};
use crate::support::{Process, World, first_record, millis, pass};

/// A deployment whose consumer dead-letters every event until it is repaired.
pub(crate) struct DeadLetterFixture {
    pub(crate) world: World,
    pub(crate) process: Process,
    pub(crate) handler: Arc<Scripted>,
    repaired: Arc<AtomicBool>,
}

/// Creates the deployment with a parked dead letter for each of these events.
pub(crate) async fn dead_letter_fixture(names: &[(&str, i64)]) -> DeadLetterFixture {
    let fixture = undrained_fixture(names).await;
    fixture.process.start_drainer(&[fixture.handler.subscriber()]);
    pass(millis(700)).await;
    for (id, _) in names {
        assert_eq!(fixture.world.dead_letter(QUEUE, id).await.status, DeadLetterStatus::Open);
        assert_eq!(fixture.world.log_status(NAME, id).await, Some(ConsumeStatus::Dead));
    }
    fixture
}

/// Creates the deployment. The events are DEAD, and their messages are still in the dead-letter queue.
pub(crate) async fn undrained_fixture(names: &[(&str, i64)]) -> DeadLetterFixture {
    let world = World::new().await;
    let repaired = Arc::new(AtomicBool::new(false));
    let is_repaired = Arc::clone(&repaired);
    let script = move |_: &[String], _| {
        if is_repaired.load(Ordering::SeqCst) { Act::Apply } else { Act::FailPermanently }
    };
    let handler = Scripted::new(&world, script);
    let process = with_scripted(world.process(), &handler);
    process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    let mut seqs = BTreeMap::new();
    for (id, order) in names {
        let seq = seqs.entry(order).and_modify(|seq| *seq += 1).or_insert(1);
        world.commit_and_deliver(&process, id, *order, *seq).await;
        pass(millis(50)).await;
    }
    DeadLetterFixture { world, process, handler, repaired }
}

/// A process whose application includes the scripted consumer.
pub(crate) fn with_scripted(process: Process, handler: &Arc<Scripted>) -> Process {
    let outbox = process.app.outbox.clone().with_consumer(&handler.subscriber(), &[]);
    Process { app: App { outbox, ..process.app }, ..process }
}

impl DeadLetterFixture {
    pub(crate) fn repair_consumer(&self) {
        self.repaired.store(true, Ordering::SeqCst);
    }

    pub(crate) async fn replay(&self, selection: DeadLetterSelection) -> Result<Replayed, OperationError> {
        let command = ReplayDeadLetters { selection, dry_run: false, reason: Some(reason()) };
        replay_dead_letters(&self.process.app.outbox, &acting(&operator()), command).await
    }
}

pub(crate) fn refusals(replayed: &Replayed) -> Vec<(&str, &str)> {
    refusals_of(&replayed.refused)
}

pub(crate) fn refusals_of(refused: &[Refused]) -> Vec<(&str, &str)> {
    refused.iter().map(|refused| (refused.key.as_str(), refused.why.as_str())).collect()
}

/// Parks dead letters, as the drainer does.
pub(crate) async fn park(world: &World, dead_letters: &[DeadLetter]) {
    let mut unit = world.store.begin().await.unwrap();
    unit.outbox().park(dead_letters).await.unwrap();
    unit.commit().await.unwrap();
}

/// A record with this status that replaces the consume-log record of the event at the scripted consumer.
pub(crate) async fn next_record(world: &World, id: &str, status: ConsumeStatus) -> Consumption {
    let row = world.row(id).await;
    let record = world.log(NAME, id).await.unwrap();
    Consumption {
        expected: Expected::At(record.status, record.attempts),
        attempts: u32::from(status == ConsumeStatus::Dead),
        error_message: Some("service unavailable".into()),
        ..first_record(row, NAME, status, world.now())
    }
}
