//! The settings of a process, as it reports them.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// A setting of a running process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningSetting {
    /// Path of the key.
    pub key: String,
    /// The value, without secret parts.
    pub value: String,
    /// Source of the value, such as the path of a file.
    pub from: String,
}

/// The settings of this process, for its reports. MUST contain no secret: every operator of all tenants can read them.
#[derive(Debug, Default)]
pub(crate) struct SettingsOfProcess {
    settings: Mutex<Vec<RunningSetting>>,
    changed: Notify,
}

impl SettingsOfProcess {
    /// Sets the settings; they are reported at once.
    pub(crate) fn set(&self, settings: Vec<RunningSetting>) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        self.changed.notify_one();
    }

    pub(crate) fn get(&self) -> Vec<RunningSetting> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the settings change.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
