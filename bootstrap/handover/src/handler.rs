//! Handlers: plain async functions, by event type.

mod error;

use std::future::{Future, ready};
use std::num::NonZeroU16;
use std::time::Duration;

use handover_events::{EventType, RetryPolicy};
use handover_outbox::consumers::{Applied, Event as StoredEvent, HandlerError as StoredError};
use handover_outbox::{BoxFuture, ConsumeOrder, OwnSettings};

use crate::data::{Data, Resources};
use crate::event::Event;
use crate::registration::Registration;

pub use error::HandlerError;

/// Result of a handler. `?` converts every error into one after which the event is retried.
pub type Result<T = (), E = HandlerError> = std::result::Result<T, E>;

/// A function for [`in_transaction`]: `async fn(Event<E>, &mut C, Data<T>..) -> handover::Result`, where `C` is the
/// connection of sqlx, such as `PgConnection`, or the unit of work of an own store, with up to three `Data<T>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler for `in_transaction`",
    label = "expected `async fn(Event<E>, &mut Connection, Data<T>..) -> handover::Result`",
    note = "the first argument is `Event<E>`, by value, where `E` has `#[derive(Event)]`",
    note = "the second argument is the connection of sqlx by `&mut`, such as `&mut PgConnection` (on an own store its unit of work); up to three `Data<T>` follow",
    note = "it returns `handover::Result`, or another `Result` whose error implements `std::error::Error`",
    note = "its future is `Send`: no `Rc` and no lock guard of std may live across an `.await`",
    note = "a function without a connection belongs in `at_least_once`"
)]
pub trait InTransactionFn<'a, E, D, C: ?Sized>: Send + Sync + 'static {
    #[doc(hidden)]
    fn call(
        &self,
        event: Event<E>,
        connection: &'a mut C,
        resources: &Resources,
    ) -> BoxFuture<'a, Result<Applied>>;

    #[doc(hidden)]
    fn missing(resources: &Resources) -> Option<&'static str>;
}

/// A function for [`at_least_once`]: `async fn(Event<E>, Data<T>..) -> handover::Result`, with up to three `Data<T>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler for `at_least_once`",
    label = "expected `async fn(Event<E>, Data<T>..) -> handover::Result`",
    note = "the first argument is `Event<E>`, by value, where `E` has `#[derive(Event)]`; up to three `Data<T>` follow",
    note = "it returns `handover::Result`, or another `Result` whose error implements `std::error::Error`",
    note = "its future is `Send`: no `Rc` and no lock guard of std may live across an `.await`",
    note = "a function that writes to the database with a connection belongs in `in_transaction`"
)]
pub trait AtLeastOnceFn<E, D>: Send + Sync + 'static {
    #[doc(hidden)]
    fn call(&self, event: Event<E>, resources: &Resources) -> BoxFuture<'static, Result<Applied>>;

    #[doc(hidden)]
    fn missing(resources: &Resources) -> Option<&'static str>;
}

/// Takes a value that `build` has checked for.
macro_rules! take {
    ($resources:ident, $data:ident) => {
        match $resources.get::<$data>() {
            Some(data) => data,
            None => {
                let name = std::any::type_name::<$data>();
                let error = HandlerError::permanent(format!("no Data<{name}> was given"));
                return Box::pin(ready(Err(error)));
            }
        }
    };
}

/// Implements the traits for functions with these values.
macro_rules! functions {
    ($($data:ident),*) => {
        impl<'a, F, Fut, R, X, E, C: ?Sized, $($data),*> InTransactionFn<'a, E, ($($data,)*), C> for F
        where
            F: Fn(Event<E>, &'a mut C, $(Data<$data>),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = std::result::Result<R, X>> + Send + 'a,
            R: Into<Applied>,
            X: Into<HandlerError>,
            C: 'static,
            $($data: Send + Sync + 'static,)*
        {
            #[allow(unused_variables, non_snake_case, reason = "without values, and names of types")]
            fn call(
                &self,
                event: Event<E>,
                connection: &'a mut C,
                resources: &Resources,
            ) -> BoxFuture<'a, Result<Applied>> {
                $(let $data = take!(resources, $data);)*
                let future = self(event, connection, $($data),*);
                Box::pin(async move { future.await.map(Into::into).map_err(Into::into) })
            }

            #[allow(unused_variables, reason = "without values")]
            fn missing(resources: &Resources) -> Option<&'static str> {
                None$(.or_else(|| resources.lacks::<$data>()))*
            }
        }

        impl<F, Fut, R, X, E, $($data),*> AtLeastOnceFn<E, ($($data,)*)> for F
        where
            F: Fn(Event<E>, $(Data<$data>),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = std::result::Result<R, X>> + Send + 'static,
            R: Into<Applied>,
            X: Into<HandlerError>,
            $($data: Send + Sync + 'static,)*
        {
            #[allow(unused_variables, non_snake_case, reason = "without values, and names of types")]
            fn call(&self, event: Event<E>, resources: &Resources) -> BoxFuture<'static, Result<Applied>> {
                $(let $data = take!(resources, $data);)*
                let future = self(event, $($data),*);
                Box::pin(async move { future.await.map(Into::into).map_err(Into::into) })
            }

            #[allow(unused_variables, reason = "without values")]
            fn missing(resources: &Resources) -> Option<&'static str> {
                None$(.or_else(|| resources.lacks::<$data>()))*
            }
        }
    };
}
functions!();
functions!(D1);
functions!(D1, D2);
functions!(D1, D2, D3);

/// A function in a transaction, without its types.
pub(crate) type TransactionCall<C> =
    Box<dyn for<'a> Fn(&StoredEvent, &'a mut C, &Resources) -> BoxFuture<'a, Result<Applied>> + Send + Sync>;

/// A function outside of transactions, without its types.
pub(crate) type EffectCall =
    Box<dyn Fn(&StoredEvent, &Resources) -> BoxFuture<'static, Result<Applied>> + Send + Sync>;

/// One function of a consumer.
pub(crate) struct Function<F> {
    pub(crate) event: Registration,
    pub(crate) call: F,
    /// Type of a value that the function needs and that was not given.
    pub(crate) missing: fn(&Resources) -> Option<&'static str>,
}

/// The functions of one consumer, by event type, and the settings of the consumer.
pub struct Handlers<F> {
    pub(crate) functions: Vec<Function<F>>,
    pub(crate) settings: OwnSettings,
    /// See [`Handlers::selective`].
    pub(crate) is_selective: bool,
    /// See [`Handlers::from`].
    pub(crate) receives_from: Option<String>,
}

/// The functions of a consumer from [`in_transaction`], on connections or units of work of type `C`.
pub type InTransaction<C> = Handlers<TransactionCall<C>>;

/// The functions of a consumer from [`at_least_once`].
pub type AtLeastOnce = Handlers<EffectCall>;

/// A consumer whose effects are rows of the same database: each event is applied **exactly once**.
///
/// The function runs its statements on the connection of the transaction that also records the event as applied. After an
/// error the transaction is rolled back. MUST NOT wait for anything except the database: a call of another system belongs
/// in [`at_least_once`].
///
/// The rules for the connection are those of sqlx; in addition, a transaction that the function begins on it is a
/// savepoint, and COMMIT or ROLLBACK as text is an error.
///
/// ```
/// use handover::{Event, HandlerError, in_transaction};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Event)]
/// # #[event(name = "book.lent", aggregate = "book")]
/// # struct BookLent { #[event(key)] book: i64, reader: String }
/// use sqlx::SqliteConnection;
///
/// async fn remind(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
///     if event.reader.is_empty() {
///         return Err(HandlerError::permanent("a loan without a reader"));
///     }
///     let insert = sqlx::query("INSERT INTO reminders (book, reader) VALUES (?, ?)");
///     insert.bind(event.book).bind(&event.reader).execute(connection).await?;
///     Ok(())
/// }
///
/// let consumer = in_transaction(remind); // for `Builder::consumer`
/// # let _ = consumer;
/// ```
pub fn in_transaction<F, E, D, C>(function: F) -> InTransaction<C>
where
    F: for<'a> InTransactionFn<'a, E, D, C>,
    E: EventType,
    D: 'static,
    C: ?Sized + 'static,
{
    InTransaction::<C>::empty().and(function)
}

/// A consumer whose effects are outside of the database, such as an HTTP call or an e-mail: each event is handled **at
/// least once**.
///
/// The function runs outside of any transaction, with one event per call, after its attempt was counted. Events of different aggregates
/// are handled at the same time; [`Handlers::prefetch`] limits their number. It is repeated
/// after an error, for about two hours unless [`Handlers::retry`] says otherwise, and if the process ends before the success
/// was recorded. It should pass
/// [`Event::event_id`] on as an idempotency key.
///
/// ```
/// use handover::{Data, Event, at_least_once};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Event)]
/// # #[event(name = "book.lent", aggregate = "book")]
/// # struct BookLent { #[event(key)] book: i64, reader: String }
/// # struct Mailer;
/// # impl Mailer { async fn send(&self, _key: &str, _to: &str) -> Result<(), std::io::Error> { Ok(()) } }
///
/// async fn mail(event: Event<BookLent>, mailer: Data<Mailer>) -> Result<(), std::io::Error> {
///     mailer.send(event.event_id(), &event.reader).await
/// }
///
/// let consumer = at_least_once(mail).timeout(std::time::Duration::from_secs(30)); // for `Builder::consumer`
/// # let _ = consumer;
/// ```
pub fn at_least_once<F, E, D>(function: F) -> AtLeastOnce
where
    F: AtLeastOnceFn<E, D>,
    E: EventType,
    D: 'static,
{
    // Another system is unavailable for longer than a lock in the database.
    let retry = RetryPolicy::consumer(Duration::from_secs(1), Duration::from_secs(300), 30);
    AtLeastOnce::empty().and(function).retry(retry)
}

impl<C: ?Sized + 'static> InTransaction<C> {
    /// Adds the function for another event type.
    #[must_use]
    pub fn and<F, E, D>(mut self, function: F) -> InTransaction<C>
    where
        F: for<'a> InTransactionFn<'a, E, D, C>,
        E: EventType,
        D: 'static,
    {
        /// The type of the argument makes the closure valid for every lifetime.
        fn boxed<C: ?Sized, F>(call: F) -> TransactionCall<C>
        where
            F: for<'a> Fn(&StoredEvent, &'a mut C, &Resources) -> BoxFuture<'a, Result<Applied>>
                + Send
                + Sync
                + 'static,
        {
            Box::new(call)
        }
        let call = boxed(move |event, connection, resources| match Event::<E>::of(event) {
            Ok(event) => function.call(event, connection, resources),
            Err(error) => Box::pin(ready(Err(HandlerError::permanent(error)))),
        });
        let missing = <F as InTransactionFn<'static, E, D, C>>::missing;
        self.functions.push(Function { event: Registration::of::<E>(), call, missing });
        self
    }
}

impl AtLeastOnce {
    /// Adds the function for another event type.
    #[must_use]
    pub fn and<F, E, D>(mut self, function: F) -> AtLeastOnce
    where
        F: AtLeastOnceFn<E, D>,
        E: EventType,
        D: 'static,
    {
        let call: EffectCall = Box::new(move |event, resources| match Event::<E>::of(event) {
            Ok(event) => function.call(event, resources),
            Err(error) => Box::pin(ready(Err(HandlerError::permanent(error)))),
        });
        let missing = <F as AtLeastOnceFn<E, D>>::missing;
        self.functions.push(Function { event: Registration::of::<E>(), call, missing });
        self
    }
}

impl<F> Handlers<F> {
    fn empty() -> Handlers<F> {
        Handlers {
            functions: Vec::new(),
            settings: OwnSettings::default(),
            is_selective: false,
            receives_from: None,
        }
    }

    /// Sets the retry policy for failed attempts. The default of [`in_transaction`] is three retries, after 200, 400 and 800 ms;
    /// that of [`at_least_once`] is 30 retries, after 1 s and twice as long each time, at most 5 minutes: about two hours.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Handlers<F> {
        self.settings.retry = Some(policy);
        self
    }

    /// Sets the maximum number of deliveries that are not settled yet, and so of calls at the same time. The default is 20.
    #[must_use]
    pub fn prefetch(mut self, deliveries: NonZeroU16) -> Handlers<F> {
        self.settings.prefetch = Some(deliveries);
        self
    }

    /// Sets the longest duration of an attempt. The default is 10 s.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Handlers<F> {
        self.settings.attempt_timeout = Some(limit);
        self
    }

    /// Applies the events of an aggregate in any order, also at the same time: a failed or slow event delays no other.
    #[must_use]
    pub fn unordered(mut self) -> Handlers<F> {
        self.settings.order = ConsumeOrder::Any;
        self
    }

    /// Makes the queue of the consumer selective: an event that names the consumer in
    /// [`Options::idle_consumer`](crate::Options::idle_consumer) is not delivered to it. Every other event is.
    ///
    /// Set it in every process. While a relay runs that does not know of it, as during a rolling deployment, such events are delivered,
    /// too, and ignored. With RabbitMQ, the events that such a relay publishes in its first 10 seconds may be applied a minute later.
    ///
    /// ```
    /// use handover::{Event, Options, Outbox, at_least_once};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize, Event)]
    /// # #[event(name = "book.lent", aggregate = "book")]
    /// # struct BookLent { #[event(key)] book: i64, reader: String }
    /// # use sqlx::{Sqlite, SqlitePool};
    ///
    /// async fn mail(event: Event<BookLent>) -> handover::Result {
    ///     // write to the reader ...
    ///     Ok(())
    /// }
    ///
    /// fn outbox(pool: SqlitePool) -> Result<Outbox<Sqlite>, handover::BuildError> {
    ///     Outbox::builder(pool).consumer("mail", at_least_once(mail).selective()).build()
    /// }
    ///
    /// /// A reader without an address gets no mail.
    /// fn options(has_address: bool) -> Options {
    ///     if has_address { Options::default() } else { Options::default().idle_consumer("mail") }
    /// }
    /// # let _ = (outbox, options);
    /// ```
    #[must_use]
    pub fn selective(mut self) -> Handlers<F> {
        self.is_selective = true;
        self
    }

    /// Receives the events that **another service** publishes to this exchange of the same virtual host of RabbitMQ. The exchange of a service
    /// with this crate has its [name](crate::Builder::name) and `.events`.
    ///
    /// An event that is received becomes a row of this service's outbox, committed before the message is acknowledged; no relay
    /// publishes it. From then on everything is as for an event of this service: exactly once in a transaction, in the order of
    /// the aggregate, retries, dead letters. The queue delivers to one process at a time, so that the order of publishing is the
    /// order of reception; when that process ends, RabbitMQ chooses another one.
    ///
    /// The other service declares its exchange. While it is missing, an error is logged and its events are not received. Events
    /// that were published before the first start of this consumer are not received either.
    ///
    /// ```
    /// use handover::{BuildError, Event, Outbox, RabbitMq, in_transaction};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize, Event)]
    /// # #[event(name = "book.lent", aggregate = "book")]
    /// # struct BookLent { #[event(key)] book: i64, reader: String }
    /// use sqlx::{Sqlite, SqliteConnection, SqlitePool};
    ///
    /// async fn remind(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    ///     let insert = sqlx::query("INSERT INTO reminders (reader) VALUES (?)");
    ///     insert.bind(&event.reader).execute(connection).await?;
    ///     Ok(())
    /// }
    ///
    /// fn outbox(pool: SqlitePool) -> Result<Outbox<Sqlite>, BuildError> {
    ///     Outbox::builder(pool)
    ///         .name("reminders")
    ///         .broker(RabbitMq::new("amqp://reminders:secret@rabbitmq:5672/")?)
    ///         .consumer("reminders", in_transaction(remind).from("library.events"))
    ///         .build()
    /// }
    /// # let _ = outbox;
    /// ```
    #[must_use]
    pub fn from(mut self, exchange: impl Into<String>) -> Handlers<F> {
        self.receives_from = Some(exchange.into());
        self
    }

    /// The function for an event of this type.
    pub(crate) fn function(&self, event_type: &str) -> std::result::Result<&F, StoredError> {
        let found = self.functions.iter().find(|function| function.event.name == event_type);
        found.map(|function| &function.call).ok_or_else(|| {
            StoredError::Unrecoverable(format!("this consumer has no function for {event_type}"))
        })
    }
}
