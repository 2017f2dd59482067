//! The API: tokens and callbacks that it accepts, and its start.

use std::time::Duration;

use handover_events::TenantId;
use handover_http::Tokens;
use handover_outbox::ports::Clock;
use handover_outbox::state::StateMetrics;
use handover_outbox::webhooks::Webhooks;
use handover_runtime::config::Secret;
use handover_runtime::http::{HttpServer, Listeners, Routers, readiness};
use handover_runtime::stores::Database;
use handover_runtime::tokens::TokenSecrets;
use handover_runtime::{Failure, jwks, metrics};
use handover_system::SystemClock;
use marketplace::{App, Role};
use marketplace_domain::UserId;
use marketplace_http::{CallbackVerifier, Edge, router_with, split_routers};
use tokio_util::sync::CancellationToken;

use crate::adapters::{Redis, admission};
use crate::secrets::{self, Secrets};
use crate::settings::{Config, GATEWAY_SECRET};

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
pub fn token(secrets: &TokenSecrets, config: &Config, asked: &TokenRequest<'_>) -> Result<String, Failure> {
    let signer = secrets.signer()?.with_rules(config.auth.rules.clone());
    let usage = |what: String| Failure::Usage { what, remedy: "see handover token --help".to_owned() };
    let user = UserId::try_from(asked.user).map_err(|error| usage(format!("--user {error}")))?;
    let tenant = TenantId::try_from(asked.tenant).map_err(|error| usage(format!("--tenant {error}")))?;
    let roles: Vec<&str> = asked.roles.iter().map(|role| role.as_str()).collect();
    signer
        .issue(user.get(), tenant, &roles, asked.ttl, SystemClock.now())
        .map_err(|error| usage(error.to_string()))
}

/// Verifies all tokens and callbacks that a configuration accepts. Clones share secrets and keys.
#[derive(Clone)]
pub(crate) struct Verifiers {
    tokens: Tokens,
    callbacks: CallbackVerifier,
}

impl Verifiers {
    fn new(config: &Config, secrets: &Secrets) -> Result<Verifiers, Failure> {
        let tokens = secrets.tokens.tokens(&config.auth)?;
        let callbacks = CallbackVerifier::new(secrets.gateway.reveal())
            .map_err(|error| secrets::refused(GATEWAY_SECRET, &error))?;
        replace_secrets(&callbacks, secrets)?;
        Ok(Verifiers { tokens, callbacks })
    }

    /// Replaces secrets and keys by those of this configuration, or changes nothing.
    pub(crate) fn replace(&self, config: &Config, secrets: &Secrets) -> Result<(), Failure> {
        secrets.tokens.replace(&config.auth, &self.tokens)?;
        replace_secrets(&self.callbacks, secrets)
    }
}

fn replace_secrets(callbacks: &CallbackVerifier, secrets: &Secrets) -> Result<(), Failure> {
    callbacks
        .replace(secrets.gateway.reveal(), secrets.previous_gateway.as_ref().map(Secret::reveal))
        .map_err(|error| secrets::refused(GATEWAY_SECRET, &error))
}

/// Parts of the service that have routes.
pub(crate) struct ApiParts {
    pub(crate) webhooks: Option<Webhooks>,
    pub(crate) state: Option<StateMetrics>,
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
        ApiParts { webhooks, state }: ApiParts,
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
        let metrics = metrics::render(state);
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
