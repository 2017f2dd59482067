//! The API: tokens and callbacks that it accepts, and its start.

use std::time::Duration;

use handover_events::TenantId;
use handover_http::{KeySet, Tokens};
use handover_outbox::ports::Clock;
use handover_outbox::webhooks::Webhooks;
use handover_runtime::config::Secret;
use handover_runtime::http::{HttpServer, Listeners, Routers, readiness};
use handover_runtime::settings::{JWKS_FILE, JWT_SECRET};
use handover_runtime::stores::Database;
use handover_runtime::{Failure, jwks, metrics};
use handover_system::SystemClock;
use marketplace::{App, Role};
use marketplace_domain::UserId;
use marketplace_http::{CallbackVerifier, Edge, router_with, split_routers};
use tokio_util::sync::CancellationToken;

use crate::adapters::{Redis, admission};
use crate::settings::{Config, GATEWAY_SECRET};
use crate::{MarketFailure, Secrets};

/// Claims of a token to issue.
pub struct TokenRequest<'a> {
    /// `sub`: the user's id.
    pub user: i64,
    /// The marketplace.
    pub tenant: i64,
    pub roles: &'a [Role],
    /// Time for which the token is valid, from now.
    pub ttl: Duration,
}

/// Issues a token for a user.
pub fn token(secret: &Secret, config: &Config, asked: &TokenRequest<'_>) -> Result<String, Failure> {
    let usage = |what: String| Failure::Usage { what, remedy: "see handover token --help".to_owned() };
    let user = UserId::try_from(asked.user).map_err(|error| usage(format!("--user {error}")))?;
    let tenant = TenantId::try_from(asked.tenant).map_err(|error| usage(format!("--tenant {error}")))?;
    let roles: Vec<&str> = asked.roles.iter().map(|role| role.as_str()).collect();
    own_tokens(secret)?
        .with_rules(config.auth.rules.clone())
        .issue(user.get(), tenant, &roles, asked.ttl, SystemClock.now())
        .map_err(|error| usage(error.to_string()))
}

/// Tokens signed with `auth.jwt-secret`.
fn own_tokens(secret: &Secret) -> Result<Tokens, Failure> {
    Tokens::new(secret.reveal().as_bytes()).map_err(|error| refused(JWT_SECRET, &error))
}

/// Verifies all tokens and callbacks that a configuration accepts. Clones share secrets and keys.
#[derive(Clone)]
pub(crate) struct Verifiers {
    tokens: Tokens,
    callbacks: CallbackVerifier,
}

impl Verifiers {
    fn new(config: &Config, secrets: &Secrets) -> Result<Verifiers, Failure> {
        let keys = load_keys(config)?;
        let tokens = match (&secrets.jwt, keys) {
            (Some(secret), Some(keys)) => own_tokens(secret)?.with_keys(keys),
            (Some(secret), None) => own_tokens(secret)?,
            (None, keys) => Tokens::from_keys(keys.unwrap_or_default()),
        };
        let callbacks = CallbackVerifier::new(secrets.gateway.reveal())
            .map_err(|error| refused(GATEWAY_SECRET, &error))?;
        let verifiers = Verifiers { tokens: tokens.with_rules(config.auth.rules.clone()), callbacks };
        verifiers.replace_secrets(secrets)?;
        Ok(verifiers)
    }

    /// Replaces secrets and keys by those of this configuration, or changes nothing.
    pub(crate) fn replace(&self, config: &Config, secrets: &Secrets) -> Result<(), Failure> {
        let keys = load_keys(config)?;
        self.replace_secrets(secrets)?;
        if let Some(keys) = keys {
            self.tokens.replace_keys(keys);
        }
        Ok(())
    }

    fn replace_secrets(&self, secrets: &Secrets) -> Result<(), Failure> {
        let jwt = secrets.jwt.as_ref().map(|secret| secret.reveal().as_bytes());
        let previous_jwt = secrets.previous_jwt.as_ref().map(|secret| secret.reveal().as_bytes());
        self.callbacks
            .replace(secrets.gateway.reveal(), secrets.previous_gateway.as_ref().map(Secret::reveal))
            .map_err(|error| refused(GATEWAY_SECRET, &error))?;
        self.tokens.replace_secrets(jwt, previous_jwt).map_err(|error| refused(JWT_SECRET, &error))
    }
}

fn load_keys(config: &Config) -> Result<Option<KeySet>, Failure> {
    jwks::load(&config.auth).map_err(|why| refused(JWKS_FILE, &why))
}

fn refused(key: &'static str, why: &impl ToString) -> Failure {
    MarketFailure::SecretRefused { key, reason: why.to_string() }.into()
}

/// The running API.
pub(crate) struct Api {
    pub(crate) server: HttpServer,
    pub(crate) verifiers: Verifiers,
    /// The secrets in use.
    pub(crate) secrets: Secrets,
}

impl Api {
    /// Starts serving the API on the listeners.
    pub(crate) fn start(
        listeners: Listeners,
        config: &Config,
        app: &App,
        database: &Database,
        webhooks: Option<Webhooks>,
    ) -> Result<Api, Failure> {
        let secrets = Secrets::of(config)?;
        let verifiers = Verifiers::new(config, &secrets)?;
        if let Some(path) = &config.auth.keys {
            jwks::watch(&app.outbox, verifiers.tokens.clone(), path.clone());
        }
        let redis = Redis::keep(config.redis.as_ref(), &app.tx);
        let stop = CancellationToken::new();
        let limits = config.http.limits();
        let edge = Edge {
            app: redis.with_idempotency_keys(app.clone()),
            tokens: verifiers.tokens.clone(),
            callbacks: verifiers.callbacks.clone(),
            requires_reference: config.gateway.requires_reference,
            readiness: readiness(database, stop.clone()),
            admission: admission(&config.limits, &redis),
            limits: limits.clone(),
            webhooks,
        };
        let metrics = metrics::render();
        let routers = if listeners.has_operators() {
            let (public, operators) = split_routers(edge, metrics);
            Routers { public, operators: Some(operators) }
        } else {
            Routers { public: router_with(edge, metrics), operators: None }
        };
        let server = HttpServer::start(listeners, routers, limits, app.tx.tasks(), stop)?;
        Ok(Api { server, verifiers, secrets })
    }
}
