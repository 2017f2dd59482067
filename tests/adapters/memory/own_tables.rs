//! Tables that an application adds to the in-memory store, here those of a library. A unit of work changes them
//! together with the outbox.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handover_memory::store::conflict;
use handover_memory::store::statement::next;
use handover_memory::store::tables::Row;
use handover_memory::{MemoryStore, MemoryUnit, VirtualClock, tables};
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Store, StoreError, UnitOfWork, outbox_of};

use super::store::{START, event};

#[derive(Debug, Clone, PartialEq)]
struct Book {
    id: i64,
    shelf: &'static str,
}

impl Row<Library> for Book {
    type Key = i64;
    /// For each shelf, the ids of its books.
    type Index = BTreeMap<&'static str, BTreeSet<i64>>;

    fn key(&self) -> i64 {
        self.id
    }

    fn enter(&self, index: &mut Self::Index) {
        index.entry(self.shelf).or_default().insert(self.id);
    }

    fn leave(&self, index: &mut Self::Index) {
        if let Some(books) = index.get_mut(self.shelf) {
            books.remove(&self.id);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Lock {
    Book(i64),
}

#[derive(Default)]
struct Sequences {
    books: i64,
}

tables! {
    struct Library {
        books: Book,
    }
    struct LibraryChanges;
    trait LibraryRows;
    type Lock = Lock;
    type Sequences = Sequences;
}

fn store() -> MemoryStore<Library> {
    MemoryStore::new(Arc::new(VirtualClock::new(START)), WakeupNotifier::default())
}

async fn add(unit: &mut MemoryUnit<Library>, shelf: &'static str) -> i64 {
    let added = unit.write(Vec::new(), |statement| {
        let id = next(&mut statement.sequences.books);
        statement.own.books.put(Book { id, shelf });
        Ok(id)
    });
    added.await.unwrap()
}

async fn shelve(unit: &mut MemoryUnit<Library>, id: i64, shelf: &'static str) -> Result<(), StoreError> {
    unit.write(vec![Lock::Book(id)], |statement| {
        if statement.books().get(&id).is_none() {
            return Err(conflict(format!("book {id}")));
        }
        statement.own.books.put(Book { id, shelf });
        Ok(())
    })
    .await
}

async fn on_shelf(unit: &mut MemoryUnit<Library>, shelf: &str) -> Vec<i64> {
    let found = unit.read(|statement| {
        let books = statement.books().select(|table| {
            let ids = table.index.get(shelf).into_iter().flatten();
            ids.filter_map(|id| Some((*id, table.get(id)?)))
        });
        books.map(|book| book.id).collect()
    });
    found.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn application_rows_and_events_are_committed_atomically() {
    let store = store();
    let empty = store.rows();
    for commits in [false, true] {
        let mut unit = store.begin().await.unwrap();
        let id = add(&mut unit, "new").await;
        unit.outbox().append(&[event("a", id, 1)]).await.unwrap();
        assert_eq!(on_shelf(&mut unit, "new").await, [id]);
        assert_eq!(store.rows(), empty);
        if commits {
            unit.commit().await.unwrap();
        }
    }
    let rows = store.rows();
    assert_eq!(rows.len(), empty.len() + 2);
    assert!(
        rows.contains(&r#"books Book { id: 2, shelf: "new" }"#.to_owned()),
        "the book must have id 2, because the rolled back id 1 is not reused: {rows:?}"
    );
    let mut view = outbox_of(&Arc::new(store)).view().await.unwrap();
    assert_eq!(view.outbox_view().outbox_by_event(&["a".parse().unwrap()]).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn uncommitted_change_of_index_is_visible_only_in_its_unit_of_work() {
    let store = store();
    let mut unit = store.begin().await.unwrap();
    let id = add(&mut unit, "new").await;
    unit.commit().await.unwrap();

    let mut unit = store.begin().await.unwrap();
    shelve(&mut unit, id, "novels").await.unwrap();
    assert_eq!((on_shelf(&mut unit, "new").await, on_shelf(&mut unit, "novels").await), (vec![], vec![id]));
    let mut view = store.view().await.unwrap();
    assert_eq!((on_shelf(&mut view, "new").await, on_shelf(&mut view, "novels").await), (vec![id], vec![]));
    unit.commit().await.unwrap();
    assert_eq!((on_shelf(&mut view, "new").await, on_shelf(&mut view, "novels").await), (vec![], vec![id]));
    assert!(
        store.modify_committed(|library| library.books.get(&id).is_some_and(|book| book.shelf == "novels"))
    );
}

#[tokio::test(start_paused = true)]
async fn deadlock_between_application_rows_and_outbox_is_transient() {
    let store = store();
    let mut unit = store.begin().await.unwrap();
    let id = add(&mut unit, "new").await;
    unit.commit().await.unwrap();

    let mut first = store.begin().await.unwrap();
    let mut second = store.begin().await.unwrap();
    shelve(&mut first, id, "novels").await.unwrap();
    second.outbox().append(&[event("a", id, 1)]).await.unwrap();
    let closes = async {
        let error = shelve(&mut second, id, "poems").await;
        drop(second);
        error
    };
    let events = [event("a", id, 1)];
    let (waited, closed) = tokio::join!(biased; first.outbox().append(&events), closes);
    waited.unwrap();
    assert!(matches!(closed, Err(StoreError::Transient(_))));
}

#[tokio::test(start_paused = true)]
async fn failed_statement_on_application_row_or_outbox_fails_unit_of_work() {
    let store = store();
    let mut unit = store.begin().await.unwrap();
    unit.outbox().append(&[event("a", 1, 1)]).await.unwrap();
    assert!(matches!(shelve(&mut unit, 9, "novels").await, Err(StoreError::Conflict { .. })));
    assert!(unit.outbox().append(&[event("b", 1, 2)]).await.is_err());
    assert!(unit.commit().await.is_err());

    let mut unit = store.begin().await.unwrap();
    let id = add(&mut unit, "new").await;
    let twice = [event("a", id, 1), event("a", id, 1)];
    assert!(matches!(unit.outbox().append(&twice).await, Err(StoreError::Conflict { .. })));
    assert!(unit.commit().await.is_err());
    assert!(!store.rows().iter().any(|row| row.starts_with("books") || row.starts_with("outbox")));
}
