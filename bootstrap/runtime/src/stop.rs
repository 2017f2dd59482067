//! The graceful stop of a process.
//!
//! **Invariant:** components stop before their dependencies: first requests and the background tasks, then the database,
//! and last the lock.

use std::time::Duration;

use handover_outbox::Tasks;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::stores::Database;

/// A stop with one deadline for all components.
pub struct Stop {
    begun: Instant,
    deadline: Instant,
}

impl Stop {
    /// Begins a stop that ends within this time.
    pub fn within(limit: Duration) -> Stop {
        let begun = Instant::now();
        Stop { begun, deadline: begun + limit }
    }

    /// Waits for the end of a component. The error names a component that does not end in time.
    pub async fn wait_for(&self, running: &str, end: impl Future) -> Result<(), Failure> {
        match tokio::time::timeout_at(self.deadline, end).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Failure::StillRunning {
                after_ms: self.begun.elapsed().as_millis(),
                running: running.to_owned(),
            }),
        }
    }

    /// Stops the background tasks, named `running`, and closes the database.
    pub async fn finish(&self, running: &str, tasks: &Tasks, database: Database) -> Result<(), Failure> {
        self.wait_for(running, tasks.stop()).await?;
        self.wait_for("the database", database.close()).await
    }
}
