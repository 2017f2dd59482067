//! Values that handlers share.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

/// A value that was given to the builder with [`Builder::data`](crate::Builder::data). Dereferences to the value.
///
/// ```
/// use handover::{Data, Event, Outbox, at_least_once};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Event)]
/// # #[event(name = "book.lent", aggregate = "book")]
/// # struct BookLent { #[event(key)] book: i64, reader: String }
/// # use sqlx::{Sqlite, SqlitePool};
///
/// struct Prefix(String);
///
/// async fn print(event: Event<BookLent>, prefix: Data<Prefix>) -> handover::Result {
///     println!("{} {}", prefix.0, event.reader);
///     Ok(())
/// }
///
/// fn outbox(pool: SqlitePool) -> Result<Outbox<Sqlite>, handover::BuildError> {
///     Outbox::builder(pool).data(Prefix("lent to".to_owned())).consumer("printer", at_least_once(print)).build()
/// }
/// ```
// The field name is long, because it would hide a field of the value with the same name.
pub struct Data<T> {
    shared_value: Arc<T>,
}

impl<T> Deref for Data<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.shared_value
    }
}

impl<T> Clone for Data<T> {
    fn clone(&self) -> Data<T> {
        Data { shared_value: Arc::clone(&self.shared_value) }
    }
}

/// The values by type.
#[doc(hidden)]
#[derive(Default)]
pub struct Resources(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Resources {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Data<T>> {
        let value = Arc::clone(self.0.get(&TypeId::of::<T>())?);
        value.downcast().ok().map(|shared_value| Data { shared_value })
    }

    /// Name of the type, if no value has it.
    pub(crate) fn lacks<T: Send + Sync + 'static>(&self) -> Option<&'static str> {
        if self.0.contains_key(&TypeId::of::<T>()) { None } else { Some(type_name::<T>()) }
    }
}
