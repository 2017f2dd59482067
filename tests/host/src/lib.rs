//! A program that depends on every crate of the toolkit, and on none of the marketplace. Its test is in `tests/`.
