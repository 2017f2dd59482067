//! Roles of a process: the parts of a program that `--roles` selects.
//!
//! A program has one list of its roles, which contains those of the toolkit and its own. The names that `--roles`
//! accepts and the roles that a process starts follow from this list.

use std::fmt;

use handover_outbox::consumers::Bound;
use handover_outbox::webhooks::WebhookDispatcher;
use handover_outbox::{ConsumerSettings, Outbox, RelaySettings, WakeupNotifier, runtime};
use tracing::warn;

use crate::failure::Failure;

/// A role: its name, and how it starts in a process with the context `C`.
pub struct Role<C: 'static> {
    /// Name of the role in `--roles`.
    pub name: &'static str,
    /// Starts the role and returns immediately. Tasks end on `Tasks::stop`.
    pub start: fn(&mut C) -> Result<(), Failure>,
}

impl<C> Role<C> {
    /// The role with this name. The error, for the user, lists the names of all roles.
    pub fn named(known: &'static [Role<C>], name: &str) -> Result<&'static Role<C>, String> {
        known.iter().find(|role| role.name == name).ok_or_else(|| {
            let known: Vec<&str> = known.iter().map(|role| role.name).collect();
            format!("allowed values: {}", known.join(", "))
        })
    }
}

impl<C> fmt::Debug for Role<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Context of a process that can run the roles of the toolkit.
pub trait Background {
    /// The outbox for background tasks.
    fn outbox(&self) -> &Outbox;
    /// Receives the wake-up notifications of this process.
    fn wake(&self) -> &WakeupNotifier;
    /// The consumers.
    fn consumers(&self) -> Vec<Bound>;
    /// Settings of the relay.
    fn relay_settings(&self) -> &RelaySettings;
    /// Settings of the consumers.
    fn consumer_settings(&self) -> &ConsumerSettings;
}

/// Context of a process that can send webhooks.
pub trait SendsWebhooks: Background {
    /// The dispatcher for background tasks; `None` without a key.
    fn webhook_dispatcher(&self) -> Option<WebhookDispatcher>;
}

/// Name of the role that publishes events.
pub const RELAY: &str = "relay";

/// Name of the role that sends webhooks.
pub const WEBHOOKS: &str = "webhooks";

/// The role `relay`: publishes outbox rows.
pub const fn relay<C: Background>() -> Role<C> {
    Role {
        name: RELAY,
        start: |process| {
            runtime::start_relay(process.outbox(), process.wake(), process.relay_settings());
            Ok(())
        },
    }
}

/// The role `consumers`: applies events and records dead letters.
pub const fn consumers<C: Background>() -> Role<C> {
    Role {
        name: "consumers",
        start: |process| {
            runtime::start_consumers(process.outbox(), process.consumers(), process.consumer_settings());
            Ok(())
        },
    }
}

/// The role `webhooks`: sends webhook deliveries. Without a key for the secrets of endpoints it does not start, and deliveries
/// wait.
pub const fn webhooks<C: SendsWebhooks>() -> Role<C> {
    Role {
        name: WEBHOOKS,
        start: |process| {
            match process.webhook_dispatcher() {
                Some(dispatcher) => dispatcher.start(),
                None => warn!(
                    "[Webhooks] webhook.key is not set: no webhook is sent, and no endpoint can be created; set it to \
                     random characters (openssl rand -hex 32), or to the text in the file of a key that was generated before"
                ),
            }
            Ok(())
        },
    }
}

/// The selected roles of a program, in the order of its list.
pub struct Roles<C: 'static>(Vec<&'static Role<C>>);

impl<C> Roles<C> {
    /// The chosen roles of this list; all of them if none was chosen.
    pub fn chosen(known: &'static [Role<C>], chosen: &[&'static Role<C>]) -> Roles<C> {
        let is_chosen = |role: &&Role<C>| chosen.is_empty() || chosen.iter().any(|one| one.name == role.name);
        Roles(known.iter().filter(is_chosen).collect())
    }

    /// All roles of this list.
    pub fn all(known: &'static [Role<C>]) -> Roles<C> {
        Roles::chosen(known, &[])
    }

    /// Whether the role with this name is selected.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|role| role.name == name)
    }

    /// Starts the selected roles in the order of the list.
    pub fn start(&self, process: &mut C) -> Result<(), Failure> {
        self.0.iter().try_for_each(|role| (role.start)(process))
    }
}

impl<C> Clone for Roles<C> {
    fn clone(&self) -> Self {
        Roles(self.0.clone())
    }
}

/// The names, separated by commas.
impl<C> fmt::Display for Roles<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|role| role.name).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Started = Vec<&'static str>;

    static KNOWN: [Role<Started>; 3] = [
        Role { name: "one", start: |started| start(started, "one") },
        Role { name: "two", start: |started| start(started, "two") },
        Role { name: "three", start: |started| start(started, "three") },
    ];

    fn start(started: &mut Started, name: &'static str) -> Result<(), Failure> {
        started.push(name);
        Ok(())
    }

    #[test]
    fn roles_are_selected_by_name_in_the_order_of_the_list() {
        assert_eq!(Roles::all(&KNOWN).to_string(), "one,two,three");
        let chosen = ["three", "one"].map(|name| Role::named(&KNOWN, name).unwrap());
        let roles = Roles::chosen(&KNOWN, &chosen);
        assert_eq!(roles.to_string(), "one,three");
        let mut started = Started::new();
        roles.start(&mut started).unwrap();
        assert_eq!(started, ["one", "three"]);
        assert!(roles.has("one") && !roles.has("two"));
    }

    #[test]
    fn unknown_name_is_refused_with_the_known_names() {
        assert_eq!(Role::named(&KNOWN, "web").unwrap_err(), "allowed values: one, two, three");
    }
}
