//! Faults of the ports of the marketplace.

mod assets;
mod business;
mod effects;
mod findings;
mod gateway;
mod invoices;
mod personal_texts;
mod requests;
