//! The store and the database broker on SQL: one code base, a dialect per engine.
